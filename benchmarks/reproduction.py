"""What comes of the paper's tables here? Every cell of `cvflows reproduce all --budget full`, kept in a journal.

    CVFLOWS_RUNS=../runs/paper python -m benchmarks.reproduction --out results    # hours; the same resumes
    CVFLOWS_WORKERS=0 CVFLOWS_RUNS=../runs/paper python -m benchmarks.reproduction --out results    # only collects

What results/robots.jsonl and results/learning.jsonl hold is not trained again.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import robots
from benchmarks.grids import Key, folder_and_workers, trained
from benchmarks.harness import RESULTS, Bar, main
from benchmarks.journal import Journal, read_rows

RETURNS = {("H+M", "SAC+CVFlow"): 2500.0, ("W+M", "SAC+CVFlow"): 3000.0, ("HC+O", "SAC+CVFlow"): 9200.0}
"""What the mean of the seeds is to reach, where there are any."""
FIGURES = {
    "return": "returns of the final policy",
    "training": "violations during training, in percent",
    "final": "violations of the final policy, in percent",
    "magnitude": "mean violation per step of training",
    "speed": "steps per second",
}


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Train what is missing, and collect every run."""
    from cvflows.reports.reproduction import Choice

    if quick:
        grids = [replace(grid, steps=600) for grid in Choice.of("final", "quick", ["Ball1D"], ["DPre+"]).grids()]
        with tempfile.TemporaryDirectory() as scratch:
            return {"runs": trained(grids, Path(scratch), 1, journal), "bars": []}
    known = recorded(RESULTS)
    own = trained(Choice.of("all", "full").grids(), *folder_and_workers("paper"), journal, known)
    runs = [*known.values(), *own]
    return {"runs": runs, "bars": list(bars(runs))}


def bars(runs: Sequence[dict[str, Any]]) -> Iterator[Bar]:
    """Means of the seeds, and no forbidden action through a map."""
    for (task, method), least in RETURNS.items():
        some = [run for run in runs if (run["task"], run["method"]) == (task, method)]
        if some:
            reached = float(np.mean([run["final"]["return"] for run in some]))
            yield Bar(f"{task} {method} return, mean of {len(some)} seeds", reached, least)
            asked = sum(run[part]["cv_count"] for run in some for part in ("training", "final"))
            yield Bar(f"{task} {method} forbidden actions asked for", asked, 0, at_least=False)


def recorded(folder: Path) -> dict[Key, dict[str, Any]]:
    """Runs of other benchmarks that count here too: those with the usual settings, or with the plain entropy."""
    found: dict[Key, dict[str, Any]] = {}
    learning = folder / "learning.jsonl"
    for row in read_rows(learning)[0] if learning.exists() else []:
        run = row["figures"]
        method = f"{run['method']}-plain" if row["part"].endswith(" plain") else run["method"]
        if row.get("repeatable") is not False and run["task"] != "H+M":
            found[run["task"], method, run["steps"], run["seed"]] = {**run, "method": method}
    for run in robots.recorded(folder):
        found[run["task"], run["method"], run["steps"], run["seed"]] = run
    return found


def collected(folder: Path) -> list[dict[str, Any]]:
    """Every run that the journals of a folder hold."""
    journal = folder / "reproduction.jsonl"
    own = [row["figures"] for row in read_rows(journal)[0]] if journal.exists() else []
    return [*recorded(folder).values(), *own]


def value(run: dict[str, Any], figure: str) -> float:
    """One figure of a run; violations of tasks that limit states are counted in episodes, as the paper does."""
    if figure == "return":
        return float(run["final"]["return"])
    if figure == "magnitude":
        return float(run["training"]["cv_magnitude"])
    if figure == "speed":
        seconds = run["seconds"] if "seconds" in run else 60 * run["minutes"]
        return float(run["steps"] / seconds) if seconds > 1 else math.nan  # some old runs were not timed
    return float(run[figure]["left_percent" if run.get("metric") == "episodes" else "cv_percent"])


def table(report: dict[str, Any]) -> str:
    """Every figure by task and method: mean of the seeds (how many), beside the paper's."""
    return "\n\n".join(f"**{title}**\n\n{one_table(report['runs'], name)}" for name, title in FIGURES.items())


def one_table(runs: Sequence[dict[str, Any]], figure: str) -> str:
    """A row per task, a column per method: ours / the paper's."""
    from cvflows.reports.paper import TABLES, reported
    from cvflows.reports.reproduction import COMPARED, MUJOCO, WORLDS

    paper = reported(figure) if figure in TABLES else {}
    methods = [name for name in COMPARED if any(run["method"] == name for run in runs)]
    lines = [f"| task | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|"]
    for task in (*MUJOCO, *WORLDS):
        cells = []
        for method in methods:
            values = [value(run, figure) for run in runs if (run["task"], run["method"]) == (task, method)]
            values = [number for number in values if not math.isnan(number)]
            ours = f"{_short(float(np.mean(values)))} ({len(values)})" if values else "–"
            theirs = paper.get((task, method))
            cells.append(ours if theirs is None else f"{ours} / {_short(theirs.mean)}")
        lines.append(f"| {task} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.1f}" if abs(number) >= 10 else f"{number:.2g}"


if __name__ == "__main__":
    main("reproduction", run, table, parts="runs")
