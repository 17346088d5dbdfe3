"""Is a uniform map enough? PPO through maps that are uniform, and through one that leaves allowed actions alone.

The same agent on two robots through: slices made uniform by splines, the gauge map, the ray map, the projection of a
clipped action, and without any constraint. A part is one run, kept in the journal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.harness import ROOT, main
from benchmarks.journal import Job, Journal, run_parts
from benchmarks.learning_figures import draw_curves

if TYPE_CHECKING:
    from cvflows.runs.config import RunConfig
    from cvflows.tasks.base import Task

STEPS = {"W+M": 700_000, "HC+O": 700_000}
FREE = {"W+M": "Walker2d-v5", "HC+O": "HalfCheetah-v5"}
SEEDS = 3
EPISODES = 50
WAYS: dict[str, tuple[str, str | None]] = {
    "slice, uniform": ("PPO+CVFlow", "slice"),
    "gauge, uniform": ("PPO+CVFlow", "gauge"),
    "ray": ("PPO+CVFlow", "ray"),
    "projection": ("PPO", None),
    "no constraint": ("PPO", None),
}
"""What stands between the agent and its robot: a method, and the kind of its map."""


def task_of(name: str, way: str) -> Task:
    """The task, or its robot without a constraint."""
    import cvflows as cv

    found = cv.task(name)
    return found if way != "no constraint" else cv.Task.from_env(FREE[name], cv.Box(found.action_dim), name=name)


def config_of(name: str, way: str, steps: int, seed: int) -> RunConfig:
    """The settings of one run."""
    from cvflows.runs.config import make_config

    method, kind = WAYS[way]
    options: dict[str, Any] = {"map": kind, "final_episodes": EPISODES, "evaluate_every": max(steps // 14, 1)}
    return make_config(task_of(name, way), method, steps=steps, seed=seed, **options)


def settings_of(*job: Any) -> dict[str, Any]:
    """The same as plain data."""
    return config_of(*job).as_json()


def train(name: str, way: str, steps: int, seed: int) -> dict[str, Any]:
    """One run and its figures."""
    from cvflows.runs.preparation import fitted_map
    from cvflows.runs.tally import summarise
    from cvflows.runs.train import Trainer

    config, task = config_of(name, way, steps, seed), task_of(name, way)
    trainer = Trainer(task, config, fitted_map(task, config))
    trainer.run()
    curve = [(row["step"], row["return"]) for row in trainer.evaluations]
    training, final = summarise(trainer.episodes), trainer.evaluate(EPISODES)
    trainer.close()
    return {"training": training, "final": final, "curve": curve}


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Returns of every way, on both robots."""
    tasks = {"W+M": 8192} if quick else STEPS
    jobs: list[Job] = [
        (name, way, steps, seed)
        for seed in range(1 if quick else SEEDS)
        for name, steps in tasks.items()
        for way in WAYS
        if not quick or way == "ray"
    ]
    rows = run_parts(train, jobs, "training", journal, config=settings_of)
    runs = [
        {**row["figures"], "task": name, "way": way, "steps": steps, "seed": seed}
        for (name, way, steps, seed), row in zip(jobs, rows, strict=True)
    ]
    if journal.path is not None:
        series = {way: lambda run, way=way: run["way"] == way for way in WAYS}
        draw_curves(runs, series, ROOT / "docs" / "images" / "uniform.png", columns=2)
    return {"runs": runs, "bars": []}


def table(report: dict[str, Any]) -> str:
    """Means and every seed."""
    lines = ["| task | through | return | seeds | % of training steps forbidden |", "|---" * 5 + "|"]
    for name in dict.fromkeys(run["task"] for run in report["runs"]):
        for way in WAYS:
            some = [run for run in report["runs"] if (run["task"], run["way"]) == (name, way)]
            if some:
                returns = [run["final"]["return"] for run in some]
                asked = sum(run["training"]["cv_percent"] for run in some) / len(some)
                seeds = ", ".join(f"{value:,.0f}" for value in returns)
                lines.append(f"| {name} | {way} | {sum(returns) / len(returns):,.0f} | {seeds} | {asked:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main("uniform", run, table, parts="runs")
