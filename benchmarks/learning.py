"""Does it learn? Our methods and others on tasks with budgets that fit a laptop.

    make learning                              # hours; runs that have a row are skipped
    python -m benchmarks.learning --missing    # which have none

Two single-threaded processes; a part is one run, kept in the journal, so that it can be cut off and started again.
Returns are of the last evaluation, violations of all of training.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import ROOT, Bar, main
from benchmarks.journal import Job, Journal, Row, run_parts, source
from benchmarks.learning_figures import draw_curves, draw_violations, lines_of, summary, write_csv

if TYPE_CHECKING:
    from cvflows.runs.config import RunConfig
    from cvflows.tasks.base import Task

METHODS = ("SAC+CVFlow", "DDPG+CVFlow")
BUDGETS = {
    "Ball1D": 10_000,
    "Ball3D": 20_000,
    "Space-Arena": 50_000,
    "Space-Corridor": 50_000,
    "R+L2": 100_000,
    "R+D": 100_000,
}
OTHERS = ("DPre+", "SPre+", "NFW", "FlowPG")
OTHER_BUDGETS = {**{name: (steps, 3) for name, steps in BUDGETS.items()}, "R+L2": (50_000, 2), "R+D": (50_000, 2)}
"""Steps and seeds of the methods that are compared with."""
ABLATED = ("R+L2", "Ball3D")
"""Tasks that SAC+CVFlow also learns with the plain entropy."""
FREE = "Hopper"
"""Hopper without a constraint, which the catalogue does not have."""
HOPPER = ("H+M", 300_000, {"hidden": (128, 128)})
RETURNS = {"Ball1D": 66.0, "Ball3D": 55.0, "Space-Arena": 950.0, "Space-Corridor": 950.0, "R+L2": 18.5, "R+D": 18.5}
VIOLATED = {"actions": ("cv_percent", 0.1), "episodes": ("left_percent", 0.5)}


def task_of(name: str) -> Task:
    """A task of the catalogue, or Hopper without a constraint."""
    import cvflows as cv

    return cv.Task.from_env("Hopper-v5", cv.Box(3), name=name) if name == FREE else cv.task(name)


def config_of(name: str, method: str, steps: int, seed: int, entropy: str | None = None) -> RunConfig:
    """The settings of one run."""
    from cvflows.runs.config import make_config

    changes: dict[str, Any] = dict(HOPPER[2]) if name in (FREE, HOPPER[0]) else {}
    changes |= {} if entropy is None else {"entropy": entropy}
    options: dict[str, Any] = {"seed": seed, "final_episodes": 200, "checkpoint_every": steps}
    return make_config(task_of(name), method, steps=steps, overrides=changes, **options)


def settings_of(*job: Any) -> dict[str, Any]:
    """The same as plain data."""
    return config_of(*job).as_json()


def train(*job: Any) -> dict[str, Any]:
    """One run, every action checked before the environment gets it, and its figures."""
    from cvflows.envs.wrappers import AllowedOnly
    from cvflows.runs.preparation import resolved
    from cvflows.runs.session import begin, complete

    config = config_of(*job)
    task = resolved(task_of(config.task), config)
    with tempfile.TemporaryDirectory() as folder:
        checked = lambda: AllowedOnly(task.make_env(), task.constraint, task.reads)  # noqa: E731 - used once
        trainer = begin(task, config, Path(folder) / "run", make_env=checked)
        figures = complete(trainer)
        curve = [(row["step"], row["return"]) for row in trainer.evaluations]
    return {**figures, "metric": task.metric, "curve": curve}


def command(*job: Any) -> str:
    """What repeats a run."""
    from cvflows.runs.config import as_command

    config = config_of(*job)
    return "make learning" if config.task == FREE else as_command(config, task_of(config.task).family)


def all_runs(quick: bool) -> list[Job]:
    """Tasks, methods, steps and seeds; an entropy where it is not the usual one."""
    budgets = {"Ball1D": 2_000} if quick else BUDGETS
    seeds = 1 if quick else 3
    jobs: list[Job] = []
    for seed in range(seeds):
        jobs += [(name, method, steps, seed) for name, steps in budgets.items() for method in METHODS]
        jobs += [(name, METHODS[0], budgets[name], seed, "plain") for name in ABLATED if name in budgets]
    if not quick:
        jobs += [(HOPPER[0], method, HOPPER[1], 0) for method in METHODS]
        jobs += [(FREE, "SAC", HOPPER[1], 0)]
        jobs += [
            (name, method, steps, seed)
            for name, (steps, count) in OTHER_BUDGETS.items()
            for method in OTHERS
            for seed in range(count)
        ]
    return jobs


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Returns and violations of every run."""
    jobs = all_runs(quick)
    runs = runs_of(jobs, run_parts(train, jobs, "training", journal, config=settings_of))
    if journal.path is not None:
        report(runs, journal.path.with_suffix(".csv"))
    return {"runs": runs, "bars": [] if quick else list(bars(runs))}


def runs_of(jobs: list[Job], rows: list[Row]) -> list[dict[str, Any]]:
    """Figures of the journal's rows, with what tables say beside them."""
    return [
        {**row["figures"], "entropy": job[4] if len(job) > 4 else None, "command": command(*job), **source(row)}
        for job, row in zip(jobs, rows, strict=True)
    ]


def report(runs: list[dict[str, Any]], path: Path) -> None:
    """The table and pictures that the repository keeps."""
    write_csv(lines_of(runs), path)
    images = ROOT / "docs" / "images"
    usual = [run for run in runs if run["entropy"] is None and run["method"] not in OTHERS]
    series: dict[str, Any] = {
        name: lambda run, name=name: run["method"] == name and run["task"] != FREE for name in METHODS
    }
    free = [{**run, "task": HOPPER[0]} if run["task"] == FREE else run for run in usual]
    series["SAC, no constraint"] = lambda run: run["method"] == "SAC"
    draw_curves(free, series, images / "learning.png")
    ablated = [run for run in runs if run["task"] in ABLATED and run["method"] == METHODS[0]]
    words = {"log μ + ‖z‖²/2": lambda run: run["entropy"] is None, "log μ": lambda run: run["entropy"] == "plain"}
    draw_curves(ablated, words, images / "entropy.png")
    compared = [run for run in runs if run["entropy"] is None and run["task"] in OTHER_BUDGETS]
    everyone = {name: lambda run, name=name: run["method"] == name for name in (*METHODS, *OTHERS)}
    least = {name: steps for name, (steps, _) in OTHER_BUDGETS.items()}
    draw_curves(compared, everyone, images / "comparison.png", until=least)
    draw_violations(compared, (*METHODS, *OTHERS), images / "violations.png")


def bars(runs: list[dict[str, Any]]) -> Iterator[Bar]:
    """The worst seed must do."""
    for name, least in RETURNS.items():
        for method in METHODS:
            some = [run for run in runs if (run["task"], run["method"], run["entropy"]) == (name, method, None)]
            yield Bar(f"{name} {method} return", min(run["final"]["return"] for run in some), least)
            key, most = VIOLATED[some[0]["metric"]]
            worst = max(run["training"][key] for run in some)
            yield Bar(f"{name} {method} {key}", worst, most, at_least=False)
    for method in OTHERS:
        if method != "FlowPG":
            shares = [run["training"]["cv_percent"] for run in runs if (run["task"], run["method"]) == ("R+D", method)]
            yield Bar(f"R+D {method} violates on most steps", min(shares), 50.0)
    free = next(run for run in runs if run["task"] == FREE)
    for bound in (run for run in runs if run["task"] == HOPPER[0]):
        name = f"H+M {bound['method']}"
        yield Bar(f"{name} over unconstrained", bound["final"]["return"] / free["final"]["return"], 0.9)
        yield Bar(f"{name} cv_percent", bound["training"]["cv_percent"], 0.0, at_least=False)


def table(report: dict[str, Any]) -> str:
    """Means and worst seeds."""
    return summary(lines_of(report["runs"]))


if __name__ == "__main__":
    main("learning", run, table, parts="runs")
