"""A whole run: prepare task and map, train, evaluate at the end; or resume one that was interrupted."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path

from cvflows.envs.worlds import Env
from cvflows.errors import ArgumentError, DamageWarning, StoreError
from cvflows.figures import RunFigures
from cvflows.maps.base import ActionMap
from cvflows.maps.fit import Progress
from cvflows.maps.store import load_map
from cvflows.runs.board import Board, WeightsAndBiases
from cvflows.runs.config import RunConfig, method_of, with_inputs
from cvflows.runs.folder import RunFolder, parse_csv
from cvflows.runs.preparation import begin_folder, fitted_map, resolved, restored
from cvflows.runs.tally import summarise
from cvflows.runs.train import Trainer
from cvflows.tasks.base import Task

Tick = Callable[[Trainer], None]
logger = logging.getLogger(__name__)


def begin(
    task: Task,
    config: RunConfig,
    folder: str | Path,
    *,
    map_folder: Path | None = None,
    make_env: Callable[[], Env] | None = None,
    fit_tick: Progress | None = None,
    wandb: str | None = None,
    patience: float = 0.0,
) -> Trainer:
    """A new run in `folder`, with a map that is read from `map_folder` or fitted now, shown in a W&B project.

    The folder is locked until the trainer is closed; `patience`: seconds to wait for a process that holds it.
    """
    run = RunFolder(folder)
    with run.opening(patience):
        run.check(config)
        check_new(run)
        map_: ActionMap | None
        if map_folder is not None and method_of(config).needs_map:
            map_ = load_map(map_folder)
            task = _with_constraint_of(map_, task)
        else:
            if map_folder is not None and not map_folder.is_dir():
                raise ArgumentError("map_folder", "a folder with a map in it", map_folder)
            task = resolved(task, config)
            map_ = fitted_map(task, config, progress=fit_tick)
        config = with_inputs(config, task.constraint, map_)  # a board knows a run by its whole fingerprint
        trainer = Trainer(task, config, map_, folder=run, make_env=make_env, boards=_boards(wandb, config, run))
        begin_folder(run, trainer)
    logger.info("%s on %s, seed %d, begins in %s", config.method, config.task, config.seed, run.path)
    return trainer


def check_new(run: RunFolder) -> None:
    """An error where a folder already holds a run, or another process is writing one there."""
    if run.is_locked() and not run.lock.held:
        raise StoreError(run.path, "is being trained by another process")
    if run.has_checkpoint():
        raise ArgumentError("out", f"a new folder; to resume this run: `cvflows resume {run.path}`", run.path)


def resume(
    folder: str | Path,
    task: Task | None = None,
    *,
    make_env: Callable[[], Env] | None = None,
    look_only: bool = False,
    wandb: str | None = None,
    patience: float = 0.0,
) -> Trainer:
    """The run in `folder`, as of its last checkpoint, or from the start where it has none.

    The folder is locked until the trainer is closed. With `look_only` it must hold a checkpoint, and is neither locked
    nor changed, since the run may still be in progress.
    """
    run = RunFolder(folder)
    config = run.config()
    if look_only:
        found, map_ = restored(config, run, task)
        return Trainer(found, config, map_, folder=run, make_env=make_env, look_only=True)
    with run.opening(patience):
        found, map_ = restored(config, run, task)
        boards = _boards(wandb, config, run)
        trainer = Trainer(found, config, map_, folder=run, make_env=make_env, boards=boards)
    logger.info("%s on %s resumes at step %d of %d", config.method, config.task, trainer.step, config.steps)
    return trainer


def _boards(project: str | None, config: RunConfig, run: RunFolder) -> list[Board]:
    return [] if project is None else [WeightsAndBiases(project, config, run.path)]


def complete(
    trainer: Trainer, tick: Tick | None = None, evaluation_tick: Callable[[int], None] | None = None
) -> RunFigures:
    """Train to the end, evaluate, write `final.json` and close the trainer; the figures of the run."""
    assert trainer.folder is not None
    try:
        figures = _final(trainer.folder)
        if figures is None:
            trainer.run(tick=tick)
            figures = {
                "task": trainer.config.task,
                "method": trainer.config.method,
                "seed": trainer.config.seed,
                "steps": trainer.step,
                "violations_count": trainer.task.metric,
                "training": summarise(trainer.episodes),
                "final": trainer.evaluate(trainer.config.final_episodes, tick=evaluation_tick),
                "fingerprint": trainer.folder.fingerprint,
            }
            trainer.folder.finish(figures)
        rows = parse_csv("".join(trainer.tables["timing.csv"]))
    finally:
        trainer.close()
    seconds = sum(float(row["seconds"]) for row in rows)
    speed = round(trainer.step / seconds, 1) if seconds > 0 else None
    return {**figures, "seconds": round(seconds, 1), "steps_per_second": speed}


def _final(folder: RunFolder) -> RunFigures | None:
    """The last evaluation of a complete run; None where it is missing or damaged, so that it is repeated."""
    try:
        return folder.final()
    except StoreError as error:
        warnings.warn(f"{error}; the last evaluation is repeated", DamageWarning, stacklevel=3)
        return None


def _with_constraint_of(map_: ActionMap, task: Task) -> Task:
    """The task with the constraint a map was fitted to: for limits on states, it was learned then."""
    if task.limits is not None:
        return task.with_constraint(map_.constraint, None)
    if map_.constraint != task.constraint:
        raise ArgumentError("map_folder", f"a map of {task.name}'s set", map_.constraint)
    return task
