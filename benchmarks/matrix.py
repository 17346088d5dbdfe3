"""Does every method run on every task of the paper? 2,000 steps with small networks, every action checked.

    CVFLOWS_JOURNAL=results/matrix.jsonl python -m benchmarks.matrix

A cell trains half-way, is saved, goes on from its checkpoint in a new trainer, and must end with finite figures. Not
part of `make bench`: it takes an hour.
"""

from __future__ import annotations

import csv
import math
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.harness import Bar, main, run_parts

STEPS = 2000
SMALL = {"hidden": (32, 32), "batch": 64, "learning_starts": 500, "train_every": 1, "buffer": 5000}
OUT = Path(__file__).resolve().parent.parent / "results" / "matrix.csv"


@cache
def known(name: str) -> Any:
    """A task, its constraint learned where it limits states."""
    import cvflows as cv

    task = cv.task(name)
    return task if task.limits is None else task.learn(episodes=200, self_test=0).task


@cache
def fitted(to: str, name: str) -> Any:
    """The map that methods which fit to the `violation` or to `samples` share."""
    from cvflows.agents.methods import METHODS
    from cvflows.maps.fit import FitConfig
    from cvflows.runs.agent import fit_for

    like = next(found for found in METHODS.values() if found.needs_map and found.fitted_to == to)
    return fit_for(like, known(name), FitConfig(steps=300)).fitted.map


def cell(method: str, name: str) -> dict[str, Any]:
    """One method on one task."""
    from cvflows.agents.methods import METHODS
    from cvflows.envs.wrappers import AllowedOnly
    from cvflows.runs.agent import begin_folder
    from cvflows.runs.config import make_config
    from cvflows.runs.store import RunFolder
    from cvflows.runs.tally import summarise
    from cvflows.runs.train import Trainer

    task = known(name)
    config = make_config(task, method, steps=STEPS, overrides=SMALL, checkpoint_every=STEPS // 2)
    chosen = METHODS[method]
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


def run(quick: bool) -> dict[str, Any]:
    """Every method on every task of the paper."""
    from cvflows.agents.methods import METHODS
    from cvflows.tasks.catalogue import TASKS

    tasks = [task.name for task in TASKS.values() if task.in_paper]
    jobs = [(method, name) for name in tasks for method in METHODS]  # a task's cells share its map
    with tempfile.TemporaryDirectory() as compiled:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled  # a trainer that goes on need not compile again
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        cells = run_parts(cell, jobs[:2] if quick else jobs, "cells")
    if not quick:
        write(cells)
    good = sum(found["finite"] and found["steps"] == STEPS and found["resumed_at"] > 0 for found in cells)
    return {"cells": cells, "bars": [Bar("cells that run", good, len(cells))]}


def write(cells: list[dict[str, Any]]) -> None:
    """The table that the repository keeps."""
    names = ("cv_percent", "kasaura_percent", "flowpg_percent", "cv_magnitude", "projections", "left_percent")
    with OUT.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "task", "steps", "finite", "return", *names])
        for found in cells:
            shares = [f"{found['training'][name]:.4g}" for name in names]
            row = [found["method"], found["task"], found["steps"], int(found["finite"])]
            writer.writerow([*row, f"{found['final']['return']:.4g}", *shares])


def table(report: dict[str, Any]) -> str:
    """Violations during training, in percent of the steps."""
    cells = {(found["method"], found["task"]): found for found in report["cells"]}
    tasks = list(dict.fromkeys(name for _, name in cells))
    lines = [f"| CV % | {' | '.join(tasks)} |", "|---" * (len(tasks) + 1) + "|"]
    for method in dict.fromkeys(name for name, _ in cells):
        row = [cells.get((method, name)) for name in tasks]
        words = [f"{found['training']['cv_percent']:.1f}" if found else "" for found in row]
        lines.append(f"| {method} | {' | '.join(words)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main("matrix", run, table)
