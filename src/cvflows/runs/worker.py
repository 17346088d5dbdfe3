"""What one process of a suite does: prepare what the runs of a task share, or complete a run.

    python -m cvflows.runs.worker '{"kind": "run", …}'

Both resume where they were interrupted, and do not repeat what is complete.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cvflows.agents.methods import method, with_map
from cvflows.errors import CVFlowsError
from cvflows.plugins import load_plugins
from cvflows.runs.config import RunConfig, method_of
from cvflows.runs.fitting import fit_map, save_report
from cvflows.runs.folder import RunFolder
from cvflows.runs.grid import JobData, map_folder
from cvflows.runs.mirror import Mirror
from cvflows.runs.preparation import FITTING, PREPARING
from cvflows.runs.session import begin, complete, resume
from cvflows.runs.train import Trainer
from cvflows.tasks.base import Task
from cvflows.tasks.catalogue import task as find_task

logger = logging.getLogger(__name__)
LOCK_SECONDS = 60.0
"""Seconds to wait for a run that another process still holds: it may be ending."""
GROUP = Path("/proc/self/autogroup")


def work(kind: str, data: JobData, scratch: Path | None = None) -> None:
    """Do a job of `grid.jobs_of`; with a mirror, in `scratch` instead of `out`, which may be another machine's."""
    load_plugins()
    mirror = Mirror(data["mirror"]) if data["mirror"] else None
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


def prepare(name: str, form: str, methods: Sequence[tuple[str, str | None]], folder: Path) -> None:
    """Learn the constraint, where the task limits states, and fit a map of every kind that methods need."""
    task = shared_task(name, form, folder, learn=True)
    for chosen in (with_map(method(name), kind) for name, kind in methods):
        target = map_folder(folder, chosen)
        if not target.exists():
            report = fit_map(task, chosen.map, FITTING, fitted_to=chosen.fitted_to)
            whole = target.with_name(f"{target.name}.{os.getpid()}")  # so that a folder of that name holds a whole map
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
    """Begin or resume a run, and complete it; `push` is called after every checkpoint."""
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


def stay_nice() -> None:
    """As nice to other programs as the suite: Linux groups processes by session, and a new group is not nice."""
    if (nice := os.nice(0)) > 0 and GROUP.exists():
        try:
            GROUP.write_text(str(nice))
        except OSError as error:  # it may be set ten times a second
            logger.warning("%s could not be set to %d: %s", GROUP, nice, error)


if __name__ == "__main__":
    stay_nice()
    job = json.loads(sys.argv[1])
    try:
        work(job["kind"], job["data"])
    except CVFlowsError as error:
        sys.exit(f"cvflows: {error}")
