"""How fast do environments step, and what does the guard cost where it has nothing to do?

Every task, bare and guarded, in turns so that the machine's other load hits both; the guard's cost is the median over
the rounds of guarded time over bare time, less one. Actions are allowed ones near zero, or shares that add up, so that
none is projected; how many were is reported. Hand-made worlds are stepped unwrapped.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

import cvflows as cv
from benchmarks.harness import Bar, main, one_core
from cvflows.tasks.catalogue import TASKS

WORLD_STEPS_PER_SECOND = 30_000
GUARD_SHARE = 0.30
WORLDS = ("Ball1D", "Ball3D", "Space-Corridor", "Space-Arena")


def quiet_action(task: cv.Task) -> np.ndarray:
    """An action that the task allows in nearly every state."""
    inner = np.zeros(task.action_dim, np.float32)
    if task.name in ("R+D", "H+D", "BSS3z", "BSS5z"):
        inner = np.asarray(task.constraint.project(None, np.linspace(0.5, 0.6, task.action_dim)))
    return inner


def step(env: Any, action: np.ndarray, count: int) -> tuple[float, int]:
    """Seconds per step, resets left out, and how many actions were projected."""
    spent, projected = 0.0, 0
    env.reset(seed=0)
    start = time.perf_counter()
    for _ in range(count):
        _, _, terminated, truncated, info = env.step(action)
        projected += info.get("projected", False)
        if terminated or truncated:
            spent += time.perf_counter() - start
            env.reset()
            start = time.perf_counter()
    return (spent + time.perf_counter() - start) / count, projected


def measure(task: cv.Task, rounds: int, count: int) -> dict[str, Any]:
    """Figures of one task."""
    bare, guarded, action = task.make_env(), task.make_env(guard=True), quiet_action(task)
    step(bare, action, 50), step(guarded, action, 50)
    pairs = [(step(bare, action, count), step(guarded, action, count)) for _ in range(rounds)]
    alone = [step(bare.unwrapped, action, count)[0] for _ in range(3)] if task.family == "world" else []
    return {
        "task": task.name,
        "steps_per_second": 1 / statistics.median(pair[0][0] for pair in pairs),
        "guarded_steps_per_second": 1 / statistics.median(pair[1][0] for pair in pairs),
        "unwrapped_steps_per_second": 1 / min(alone) if alone else None,
        "guard_cost": statistics.median(guard[0] / plain[0] for plain, guard in pairs) - 1,
        "projected": sum(pair[1][1] for pair in pairs) / (rounds * count),
    }


def run(quick: bool) -> dict[str, Any]:
    """Steps per second of every task, with and without the guard."""
    one_core()
    rounds, count = (5, 300) if quick else (15, 1000)
    tasks = [measure(task, rounds, count) for task in TASKS.values()]
    bars = []
    for figures in tasks:
        name, family = figures["task"], TASKS[figures["task"]].family
        if name in WORLDS:
            bars.append(Bar(f"{name} steps/s", figures["unwrapped_steps_per_second"], WORLD_STEPS_PER_SECOND))
        if family != "world":
            bars.append(Bar(f"{name} guard cost", figures["guard_cost"], GUARD_SHARE, at_least=False))
    return {"tasks": tasks, "bars": bars}


def table(report: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = ["| task | steps/s | unwrapped | guarded | guard costs | projected |", "|---|---|---|---|---|---|"]
    for row in report["tasks"]:
        alone = f"{row['unwrapped_steps_per_second']:,.0f}" if row["unwrapped_steps_per_second"] else ""
        speeds = f"{row['steps_per_second']:,.0f} | {alone} | {row['guarded_steps_per_second']:,.0f}"
        lines.append(f"| {row['task']} | {speeds} | {row['guard_cost']:.0%} | {row['projected']:.1%} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main("env_speed", run, table)
