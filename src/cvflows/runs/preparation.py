"""What a run starts from: its constraint, learned where the task limits states, its map, and its folder."""

from __future__ import annotations

import logging

from cvflows.maps.base import ActionMap
from cvflows.maps.fit import FitConfig, Progress
from cvflows.maps.store import load_map, save_map
from cvflows.runs.config import RunConfig, method_of
from cvflows.runs.fitting import fit_map
from cvflows.runs.folder import RunFolder
from cvflows.runs.train import Trainer
from cvflows.tasks.base import Task
from cvflows.tasks.catalogue import task as find_task

PREPARING = 0
"""Seed of what the runs of a task share, in a suite or alone: the learned constraint and the map."""
logger = logging.getLogger(__name__)
FITTING = FitConfig(seed=PREPARING, check_every=250)
"""How that map is fitted."""


def begin_folder(run: RunFolder, trainer: Trainer) -> None:
    """Write what a run starts from: its config, the constraint if it was learned, the map."""
    run.check(trainer.config)
    if trainer.task.limits is not None:
        run.keep_constraint(trainer.task.constraint)
    if trainer.learner.map is not None:
        save_map(trainer.learner.map, run.path / "map")
    run.create(trainer.config)


def resolved(task: Task, config: RunConfig) -> Task:
    """The task with its constraint learned, where it limits states: the same for every seed of a run."""
    if task.limits is None or not isinstance(task.allowed, tuple):
        return task
    logger.info("learning the limits of %s", task.name)
    return task.learn(config.form, seed=PREPARING).task


def fitted_map(
    task: Task, config: RunConfig, progress: Progress | None = None, fitting: FitConfig = FITTING
) -> ActionMap | None:
    """A map fitted to the task, where the method has one: the same for every seed of a run."""
    method = method_of(config)
    if not method.needs_map:
        return None
    logger.info("fitting a map of kind %s to %s", method.map, task.name)
    return fit_map(task, method.map, fitting, fitted_to=method.fitted_to, progress=progress).map


def restored(config: RunConfig, run: RunFolder, task: Task | None) -> tuple[Task, ActionMap | None]:
    """Task and map of a saved run, with the constraint that was learned then."""
    found = find_task(config.task) if task is None else task
    if (known := run.constraint()) is not None:
        found = found.with_constraint(known, None)
    if not method_of(config).needs_map:
        return found, None
    return found, load_map(run.path / "map", found.constraint)
