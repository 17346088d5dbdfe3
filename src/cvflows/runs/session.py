"""A whole run: prepare task and map, train, evaluate at the end; or go on where one was cut off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cvflows.errors import ArgumentError
from cvflows.maps.base import ActionMap
from cvflows.maps.store import load_map
from cvflows.runs.agent import begin_folder, fitted_map, resolved, restored
from cvflows.runs.board import Board, WeightsAndBiases
from cvflows.runs.config import RunConfig, method_of
from cvflows.runs.store import RunFolder
from cvflows.runs.tally import summarise
from cvflows.runs.train import Trainer
from cvflows.tasks.base import Task

Tick = Callable[[Trainer], None]


def begin(
    task: Task,
    config: RunConfig,
    folder: str | Path,
    *,
    map_folder: Path | None = None,
    make_env: Callable[[], Any] | None = None,
    fit_tick: Any = None,
    wandb: str | None = None,
) -> Trainer:
    """A new run in `folder`, with a map that is read from `map_folder` or fitted now, shown in a W&B project."""
    run = new_folder(folder)
    map_: ActionMap | None = None
    mapped = method_of(config).decoder == "map"
    if not (mapped and map_folder is not None):  # a map that is given brings its constraint
        task = resolved(task, config)
    if mapped:
        map_ = load_map(map_folder) if map_folder is not None else fitted_map(task, config, progress=fit_tick)
        if map_folder is not None:
            task = _with_constraint_of(map_, task)  # type: ignore[arg-type]
    trainer = Trainer(task, config, map_, folder=run, make_env=make_env, boards=_boards(wandb, config, run))
    begin_folder(run, trainer)
    return trainer


def new_folder(folder: str | Path) -> RunFolder:
    """The folder of a new run, or an error where it already holds one."""
    run = RunFolder(folder)
    if run.has_checkpoint():
        raise ArgumentError("out", f"a new folder; continue this one with `cvflows resume {run.path}`", run.path)
    return run


def resume(
    folder: str | Path,
    task: Task | None = None,
    *,
    make_env: Callable[[], Any] | None = None,
    look_only: bool = False,
    wandb: str | None = None,
) -> Trainer:
    """The run in `folder`, as of its last checkpoint, or from the start where it has none.

    `look_only` leaves the folder as it is: the run may still be going on.
    """
    run = RunFolder(folder)
    config = run.config()
    found, map_ = restored(config, run, task)
    boards = _boards(wandb, config, run)
    return Trainer(found, config, map_, folder=run, make_env=make_env, look_only=look_only, boards=boards)


def _boards(project: str | None, config: RunConfig, run: RunFolder) -> list[Board]:
    return [] if project is None else [WeightsAndBiases(project, config, run.path)]


def complete(
    trainer: Trainer, tick: Tick | None = None, evaluation_tick: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Train to the end, evaluate, write `final.json`, and say how it went."""
    assert trainer.folder is not None
    if (done := trainer.folder.final()) is not None:
        return done
    trainer.run(tick=tick)
    final = trainer.evaluate(trainer.config.final_episodes, tick=evaluation_tick)
    trainer.close()
    figures = {
        "task": trainer.config.task,
        "method": trainer.config.method,
        "seed": trainer.config.seed,
        "steps": trainer.step,
        "violations_count": trainer.task.metric,
        "training": summarise(trainer.episodes),
        "final": final,
        "fingerprint": trainer.config.fingerprint,
    }
    trainer.folder.finish(figures)
    seconds = sum(float(row["seconds"]) for row in trainer.folder.table("timing.csv"))
    return {**figures, "seconds": round(seconds, 1), "steps_per_second": round(trainer.step / max(seconds, 1e-9), 1)}


def _with_constraint_of(map_: ActionMap, task: Task) -> Task:
    """The task with the constraint a map was fitted to: for limits on states, it was learned then."""
    if task.limits is not None:
        return task.with_constraint(map_.constraint, None)
    if map_.constraint != task.constraint:
        raise ArgumentError("map", f"a map of {task.name}'s set", map_.constraint)
    return task
