"""Does every method run on every task of the paper? 2,000 steps with small networks, every action checked.

    make matrix                              # an hour for all cells; those that have a row are skipped
    python -m benchmarks.matrix --missing    # which have none

A cell trains half-way, is saved, is resumed from its checkpoint in a new trainer, and must end with finite figures. A
method that was added has no rows until someone runs it, and the table says so.
"""

from __future__ import annotations

import csv
import math
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Bar, main
from benchmarks.journal import SOURCE, Journal, Row, run_parts, source

if TYPE_CHECKING:
    from cvflows.runs.config import RunConfig
    from cvflows.tasks.base import Task

STEPS = 2000
SMALL = {"hidden": (32, 32), "batch": 64, "learning_starts": 500, "train_every": 1, "buffer": 5000}
SMALL_ROLLOUTS = {"hidden": (32, 32), "rollout": 128, "minibatches": 4}
"""For rules that learn from rollouts."""
FIT_STEPS = 300
EPISODES = 200
"""Random episodes that a limit on states is learned from."""


@cache
def known(name: str) -> Any:
    """A task, its constraint learned where it limits states."""
    import cvflows as cv

    task = cv.task(name)
    return task if task.limits is None else task.learn(episodes=EPISODES, self_test=0).task


@cache
def fitted(to: str, name: str) -> Any:
    """The map that methods which fit to the `violation` or to `samples` share."""
    from cvflows.agents.methods import METHODS
    from cvflows.maps.fit import FitConfig
    from cvflows.runs.fitting import fit_map

    like = next(found for found in METHODS.values() if found.needs_map and found.fitted_to == to)
    return fit_map(known(name), like.map, FitConfig(steps=FIT_STEPS), fitted_to=to).map


def cell_config(method: str, name: str) -> dict[str, Any]:
    """Every setting of a cell, its map's fit included."""
    import cvflows as cv

    return {**_plan(cv.task(name), method).as_json(), "fit_steps": FIT_STEPS, "episodes": EPISODES}


def _plan(task: Task, method: str) -> RunConfig:
    """The run of a cell."""
    from cvflows.agents.methods import METHODS
    from cvflows.runs.config import make_config

    small = SMALL_ROLLOUTS if "rollout" in METHODS[method].algorithm.Config.names() else SMALL
    # several environments side by side would end no episode within so few steps
    return make_config(task, method, steps=STEPS, overrides=small, checkpoint_every=STEPS // 2, num_envs=1)


def cell(method: str, name: str) -> dict[str, Any]:
    """One method on one task."""
    from cvflows.agents.methods import METHODS
    from cvflows.envs.wrappers import AllowedOnly
    from cvflows.runs.folder import RunFolder
    from cvflows.runs.preparation import begin_folder
    from cvflows.runs.tally import summarise
    from cvflows.runs.train import Trainer

    task = known(name)
    config, chosen = _plan(task, method), METHODS[method]
    map_ = fitted(chosen.fitted_to, name) if chosen.needs_map else None
    with tempfile.TemporaryDirectory() as path:

        def trainer(folder: Path) -> Trainer:
            checked = lambda: AllowedOnly(task.make_env(), task.constraint, task.reads)  # noqa: E731 - used once
            return Trainer(task, config, map_, folder=RunFolder(folder), make_env=checked)

        first = trainer(Path(path))
        begin_folder(RunFolder(path), first)
        first.run(STEPS // 2)
        first.close()
        second = trainer(Path(path))
        at = second.step
        second.run()
        figures = {"training": summarise(second.episodes), "final": second.evaluate(2)}
        second.close()
    finite = all(math.isfinite(value) for part in figures.values() for value in part.values())
    finite = finite and all(math.isfinite(value) for value in second.losses.values())
    return {"method": method, "task": name, "resumed_at": at, "steps": second.step, "finite": finite, **figures}


def all_cells() -> list[tuple[str, str]]:
    """Every method on every task of the paper; a task's cells follow each other, since they share its map."""
    from cvflows.agents.methods import METHODS
    from cvflows.tasks.catalogue import TASKS

    return [(method, task.name) for task in TASKS.values() if task.in_paper for method in METHODS]


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Every method on every task of the paper."""
    jobs = all_cells()
    with tempfile.TemporaryDirectory() as compiled:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled  # a trainer that goes on need not compile again
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        rows = run_parts(cell, jobs[:2] if quick else jobs, "cells", journal, config=cell_config)
    if journal.path is not None:
        write(rows, journal.path.with_suffix(".csv"))
    cells = [row["figures"] for row in rows]
    good = sum(found["finite"] and found["steps"] == STEPS and found["resumed_at"] > 0 for found in cells)
    return {"cells": cells, "bars": [Bar("cells that run", good, len(cells))]}


def write(rows: list[Row], path: Path) -> None:
    """The table that the repository keeps."""
    names = ("cv_percent", "kasaura_percent", "flowpg_percent", "cv_magnitude", "projections", "left_percent")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "task", "steps", "finite", "return", *names, *SOURCE])
        for row in rows:
            found = row["figures"]
            shares = [f"{found['training'][name]:.4g}" for name in names]
            first = [found["method"], found["task"], found["steps"], int(found["finite"])]
            writer.writerow([*first, f"{found['final']['return']:.4g}", *shares, *source(row).values()])


def table(report: dict[str, Any]) -> str:
    """Violations during training, in percent of the steps."""
    cells = {(found["method"], found["task"]): found for found in report["cells"]}
    every = all_cells()
    tasks = list(dict.fromkeys(name for _, name in every))
    lines = [f"| CV % | {' | '.join(tasks)} |", "|---" * (len(tasks) + 1) + "|"]
    for method in dict.fromkeys(name for name, _ in every):
        row = [cells.get((method, name)) for name in tasks]
        words = [f"{found['training']['cv_percent']:.1f}" if found else "not run" for found in row]
        lines.append(f"| {method} | {' | '.join(words)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main("matrix", run, table, parts="cells")
