"""Does PPO+CVFlow learn to move robots within minutes, without a forbidden action? suites/robots.toml, and its figures.

    make robots                                             # hours; what has a row is skipped, the rest is resumed
    CVFLOWS_WORKERS=0 python -m benchmarks.robots --out results     # only collects the runs that are complete

Runs are in the folder that CVFLOWS_RUNS names, runs/robots by default, where `cvflows suite suites/robots.toml` may
have trained them as well. A complete run becomes a row of the journal: its folder is not needed any more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.grids import counting, folder_and_workers, trained
from benchmarks.harness import ROOT, Bar, main
from benchmarks.journal import Journal
from benchmarks.learning_figures import draw_curves

GRID = "suites/robots.toml"
RETURNS = {
    "H+M": 3160.0,
    "H+O+S": 3050.0,
    "H+D": 3240.0,
    "W+M": 4800.0,
    "W+O+S": 3670.0,
    "R+L2": 19.5,
    "R+D": 19.0,
    "HC+O": 6500.0,
}
MINUTES = 10.0
"""What a run of Hopper or Walker2d may take on one core."""
SMALL: dict[str, Any] = {"seeds": 1, "steps": 4096, "final_episodes": 2, "evaluate_every": 2048, "tasks": ("H+M",)}


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Train what is missing of the grid, then collect every complete run."""
    from cvflows.runs.grid import read_grids

    if quick:
        grids = [replace(read_grids(ROOT / GRID)[0], **SMALL)]
        with tempfile.TemporaryDirectory() as scratch:
            return {"runs": trained(grids, Path(scratch), 2, journal), "bars": []}
    runs = trained(read_grids(ROOT / GRID), *folder_and_workers("robots"), journal)
    if journal.path is not None and runs:
        picture = ROOT / "docs" / "images" / "robots.png"
        draw_curves(runs, {"PPO+CVFlow": lambda run: True}, picture, columns=4, paper=paper_best)
    return {"runs": runs, "bars": list(bars(runs))}


def recorded(folder: Path) -> list[dict[str, Any]]:
    """Figures of every run that a folder of results holds with today's settings."""
    from cvflows.runs.grid import read_grids

    return counting(read_grids(ROOT / GRID), Journal(folder / "robots.jsonl", "robots"))


def bars(runs: Sequence[dict[str, Any]]) -> Iterator[Bar]:
    """Means of the seeds; no forbidden action in training or of the final policy; minutes on one core."""
    for name, least in RETURNS.items():
        some = [run for run in runs if run["task"] == name]
        if not some:
            continue
        yield Bar(f"{name} return, mean of {len(some)} seeds", _mean(run["final"]["return"] for run in some), least)
        asked = sum(run[part]["cv_count"] for run in some for part in ("training", "final"))
        yield Bar(f"{name} forbidden actions asked for", asked, 0, at_least=False)
        if name[0] in "HW" and not name.startswith("HC"):
            yield Bar(f"{name} minutes", max(map(minutes, some)), MINUTES, at_least=False)


def minutes(run: dict[str, Any]) -> float:
    """Of one core: those of the processor, or on the wall for the runs that did not count them."""
    return float(run.get("processor_minutes", run["minutes"]))


def paper_best(task: str) -> float:
    """The best return that the paper reports on one of its tasks."""
    from cvflows.reports.paper import best_reported

    best = best_reported(task)
    assert best is not None
    return best["mean"]


def _mean(values: Iterator[float]) -> float:
    some = list(values)
    return sum(some) / len(some)


def table(report: dict[str, Any]) -> str:
    """Means and worst seeds beside the paper's best."""
    lines = ["| task | steps | seeds | return | worst seed | paper's best | forbidden | minutes |", "|---" * 8 + "|"]
    for name in dict.fromkeys(run["task"] for run in report["runs"]):
        some = [run for run in report["runs"] if run["task"] == name]
        returns = [run["final"]["return"] for run in some]
        best = paper_best(name)
        asked = sum(int(run[part]["cv_count"]) for run in some for part in ("training", "final"))
        digits = 1 if best < 100 else 0
        cells = [name, f"{some[0]['steps']:,}", str(len(some))]
        cells += [f"{value:,.{digits}f}" for value in (sum(returns) / len(returns), min(returns), best)]
        lines.append(f"| {' | '.join(cells)} | {asked} | {_mean(map(minutes, some)):.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main("robots", run, table, parts="runs")
