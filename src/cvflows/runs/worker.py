"""What one process of a suite does: prepare what the runs of a task share, or take a run to its end.

    python -m cvflows.runs.worker '{"kind": "run", …}'

Both go on where they were cut off, and leave alone what is complete.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cvflows.agents.methods import method
from cvflows.errors import CVFlowsError
from cvflows.maps.fit import FitConfig
from cvflows.runs.agent import PREPARING, fit_for
from cvflows.runs.config import RunConfig, method_of
from cvflows.runs.fitting import save_report
from cvflows.runs.grid import map_folder
from cvflows.runs.mirror import Mirror
from cvflows.runs.session import begin, complete, resume
from cvflows.runs.store import RunFolder
from cvflows.runs.train import Trainer
from cvflows.tasks.base import Task
from cvflows.tasks.catalogue import task as find_task

LOCK_SECONDS = 60.0
"""How long to wait for a run that another process still holds: it may be dying."""


def work(kind: str, data: Mapping[str, Any], scratch: Path | None = None) -> None:
    """Do a job of `grid.jobs_of`; with a mirror, in `scratch` instead of `out`, which may be another machine's."""
    mirror = Mirror(data["mirror"]) if data.get("mirror") else None
    root = Path(data["out"]) if mirror is None or scratch is None else scratch
    place, shared = data["place"], data.get("shared", data["place"])
    if mirror is not None:
        for needed in dict.fromkeys((place, shared)):
            mirror.pull(root / needed, needed)

    def push() -> None:
        if mirror is not None:
            mirror.push(root / place, place)

    if kind == "prepare":
        prepare(data["task"], data["form"], data["methods"], root / place)
        push()
    else:
        run(RunConfig.from_json(data["config"]), root / place, root / shared, push)


def prepare(name: str, form: str, methods: list[str], folder: Path) -> None:
    """Learn the constraint, where the task limits states, and fit a map of every kind that methods need."""
    task = shared_task(name, form, folder, learn=True)
    for chosen in map(method, methods):
        target = map_folder(folder, chosen)
        if not target.exists():
            report = fit_for(chosen, task, FitConfig(seed=PREPARING, check_every=250))
            whole = target.with_name(f"{target.name}.{os.getpid()}")  # a map is there, or it is not
            save_report(report, whole)
            try:
                whole.rename(target)
            except OSError:  # another process was first
                shutil.rmtree(whole)


def shared_task(name: str, form: str, folder: Path, *, learn: bool = False) -> Task:
    """The task; with the constraint in `folder`, where it limits states."""
    task, shared = find_task(name), RunFolder(folder)
    if task.limits is None:
        return task
    constraint = shared.constraint()
    if constraint is None and learn:
        constraint = task.learn(form, seed=PREPARING).task.constraint
        shared.keep_constraint(constraint)
    if constraint is None:
        raise CVFlowsError(f"{folder / 'constraint.json'} is missing: the constraint of {name} could not be learned")
    return task.with_constraint(constraint, None)


def run(config: RunConfig, folder: Path, shared: Path, push: Callable[[], None]) -> None:
    """Begin a run, or go on with it, to its end; `push` is called when it was saved."""
    held = RunFolder(folder)
    if held.has_checkpoint():
        trainer = resume(folder, patience=LOCK_SECONDS)
    else:
        task, chosen = shared_task(config.task, config.form, shared), method_of(config)
        source = map_folder(shared, chosen) if chosen.needs_map else None
        trainer = begin(task, config, folder, map_folder=source, patience=LOCK_SECONDS)
    pushed = trainer.saved

    def tick(trainer: Trainer) -> None:
        nonlocal pushed
        if trainer.saved > pushed:
            pushed = trainer.saved
            push()

    complete(trainer, tick)
    push()


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    try:
        work(job["kind"], job["data"])
    except CVFlowsError as error:
        sys.exit(f"cvflows: {error}")
