"""One PPO run through a map and its figures: what the benchmarks share that compare maps by what agents learn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cvflows.runs.config import RunConfig
    from cvflows.tasks.base import Task

FREE = {"W+M": "Walker2d-v5", "HC+O": "HalfCheetah-v5"}
"""Robots without a constraint."""
EPISODES = 50


def task_of(name: str, free: bool) -> Task:
    """The task, or its robot without a constraint."""
    import cvflows as cv

    found = cv.task(name)
    return cv.Task.from_env(FREE[name], cv.Box(found.action_dim), name=name) if free else found


def config_of(name: str, method: str, kind: str | None, steps: int, seed: int, free: bool = False) -> RunConfig:
    """The settings of one run."""
    from cvflows.runs.config import make_config

    options: dict[str, Any] = {"map": kind, "final_episodes": EPISODES, "evaluate_every": max(steps // 14, 1)}
    return make_config(task_of(name, free), method, steps=steps, seed=seed, **options)


def settings_of(
    name: str, method: str, kind: str | None, steps: int, seed: int, free: bool = False, transport: float = 0.0
) -> dict[str, Any]:
    """The same as plain data."""
    return config_of(name, method, kind, steps, seed, free).as_json()


def train(
    name: str, method: str, kind: str | None, steps: int, seed: int, free: bool = False, transport: float = 0.0
) -> dict[str, Any]:
    """One run and its figures; `transport` is the weight of that term in the fit of the map."""
    from cvflows.runs.preparation import FITTING, fitted_map
    from cvflows.runs.tally import summarise
    from cvflows.runs.train import Trainer

    config, task = config_of(name, method, kind, steps, seed, free), task_of(name, free)
    trainer = Trainer(task, config, fitted_map(task, config, fitting=replace(FITTING, transport=transport)))
    trainer.run()
    curve = [(row["step"], row["return"]) for row in trainer.evaluations]
    training, final = summarise(trainer.episodes), trainer.evaluate(EPISODES)
    trainer.close()
    return {"training": training, "final": final, "curve": curve}


def table(report: dict[str, Any], ways: Iterable[str]) -> str:
    """Means and every seed, by task and way."""
    lines = ["| task | through | return | seeds | % of training steps forbidden |", "|---" * 5 + "|"]
    for name in dict.fromkeys(run["task"] for run in report["runs"]):
        for way in ways:
            some = [run for run in report["runs"] if (run["task"], run["way"]) == (name, way)]
            if some:
                returns = [run["final"]["return"] for run in some]
                asked = sum(run["training"]["cv_percent"] for run in some) / len(some)
                seeds = ", ".join(f"{value:,.0f}" for value in returns)
                lines.append(f"| {name} | {way} | {sum(returns) / len(returns):,.0f} | {seeds} | {asked:.1f} |")
    return "\n".join(lines)
