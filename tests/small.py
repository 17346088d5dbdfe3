"""Runs that end in seconds: settings, configs, checked environments, and what two equal runs agree on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvflows as cv
from cvflows.envs.wrappers import AllowedOnly
from cvflows.runs.config import RunConfig, make_config

QUICK = {"hidden": (16, 16), "batch": 32, "learning_starts": 200, "learning_rate": 1e-3}
RESULTS = ("metrics.csv", "evaluations.csv", "losses.csv", "final.json")


def config_of(task: cv.Task, **options: Any) -> RunConfig:
    """The config of a short run with four checkpoints, SAC+CVFlow by default."""
    chosen = {"steps": 1200, "checkpoint_every": 300, "evaluate_every": 500, "overrides": QUICK}
    chosen |= {"evaluation_episodes": 2, "final_episodes": 4}
    return make_config(task, options.pop("method", "SAC+CVFlow"), **{**chosen, **options})


def checked(task: cv.Task) -> Callable[[], AllowedOnly]:
    """Makes environments that refuse forbidden actions."""
    return lambda: AllowedOnly(task.make_env(), task.constraint, task.reads)


def contents(folder: Path) -> dict[str, bytes]:
    """What two runs of one config agree on, byte for byte."""
    return {name: (folder / name).read_bytes() for name in RESULTS if (folder / name).exists()}


def tables(folder: Path) -> dict[str, bytes]:
    """The tables of a run, without the one that holds seconds."""
    return {path.name: path.read_bytes() for path in folder.glob("*.csv") if path.name != "timing.csv"}
