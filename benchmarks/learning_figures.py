"""Table and pictures of the learning runs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.journal import SOURCE

COLOURS = ("#1f4e79", "#c8553d", "#5b8c5a", "#b08900", "#7a5195", "#4a4e57")
LETTERS = 12
"""Of a legend, per inch."""
Runs = list[dict[str, Any]]


def lines_of(runs: Runs) -> list[dict[str, str]]:
    """One line per run, with the command that repeats it and the row of the journal."""
    lines: list[dict[str, str]] = []
    for run in sorted(runs, key=lambda run: (run["task"], run["method"], run["entropy"] or "", run["seed"])):
        line = {name: str(run[name] or "") for name in ("task", "method", "entropy")}
        line |= {name: str(run[name]) for name in ("steps", "seed")}
        line |= {name: f"{run['final'][name]:.3f}" for name in ("return", "return_std")}
        for name in ("cv_percent", "left_percent"):
            line |= {f"{name}_{part}": f"{run[part][name]:.4f}" for part in ("training", "final")}
        line |= {"steps_per_second": str(run["steps_per_second"]), "command": run["command"]}
        lines.append({**line, **{name: run[name] for name in SOURCE}})
    return lines


def write_csv(lines: Sequence[dict[str, str]], path: Path) -> None:
    """A table for machines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)


def summary(lines: Sequence[dict[str, str]]) -> str:
    """Per task and method: mean and worst return, violations of training."""
    table = ["| task | method | steps | seeds | return | worst seed | CV % | left % |", "|---" * 8 + "|"]
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for line in lines:
        groups.setdefault(tuple(line[name] for name in ("task", "method", "entropy")), []).append(line)
    for (task, *words), some in groups.items():
        returns, cv, left = (
            [float(line[name]) for line in some] for name in ("return", "cv_percent_training", "left_percent_training")
        )
        cells = [task, " ".join(words).strip(), f"{int(some[0]['steps']):,}", str(len(some))]
        cells += [f"{np.mean(returns):.1f}", f"{min(returns):.1f}", f"{np.mean(cv):.2f}", f"{np.mean(left):.2f}"]
        table.append(f"| {' | '.join(cells)} |")
    return "\n".join(table)


def draw_curves(
    runs: Runs,
    series: dict[str, Any],
    path: Path,
    columns: int = 3,
    until: Mapping[str, int] | None = None,
    paper: Callable[[str], float] | None = None,
) -> None:
    """Evaluations over training, one panel per task: the mean of the seeds, and each of them thinly.

    `series` names a curve and says by a function which runs belong to it; `until` cuts tasks off at a step. A dashed
    line is the return of `paper` on a task.
    """
    from matplotlib.lines import Line2D

    shown: dict[str, str] = {}
    tasks, panels, figure = _panels(runs, columns)
    for task, panel in zip(tasks, panels.flat, strict=False):
        for colour, (name, belongs) in zip(COLOURS, series.items(), strict=False):
            some = [run for run in runs if run["task"] == task and belongs(run)]
            if not some:
                continue
            curves = [_curve(run, until) for run in some]
            for curve in curves:
                panel.plot(curve[:, 0] / 1000, curve[:, 1], color=colour, lw=0.7, alpha=0.4)
            shortest = min(map(len, curves))
            mean = np.mean([curve[:shortest] for curve in curves], axis=0)
            panel.plot(mean[:, 0] / 1000, mean[:, 1], color=colour, lw=2)
            shown[name] = colour
        if paper:
            panel.axhline(paper(task), color="0.3", lw=1.2, ls="--")
        panel.set(title=task, xlabel="thousand steps", ylabel="return")
        panel.grid(alpha=0.3)
    lines = [Line2D([], [], color=colour, lw=2) for colour in shown.values()]
    if paper:
        lines.append(Line2D([], [], color="0.3", lw=1.2, ls="--"))
        shown["the paper's best"] = "0.3"
    fitting = int(LETTERS * figure.get_figwidth()) // (max(map(len, shown), default=0) + 8)
    ncols = max(min(len(shown), fitting), 1)
    figure.legend(lines, list(shown), loc="outside lower center", ncols=ncols, frameon=False)
    figure.savefig(path, dpi=110)


def _curve(run: dict[str, Any], until: Mapping[str, int] | None) -> np.ndarray:
    """(step, return) of the evaluations; the last is the final one, of more episodes, unless curves are cut off."""
    if until is not None:
        return np.array([point for point in run["curve"] if point[0] <= until[run["task"]]])
    before = [(step, value) for step, value in run["curve"] if step < run["steps"]]
    return np.array([*before, (run["steps"], run["final"]["return"])])


def draw_violations(runs: Runs, methods: Sequence[str], path: Path, columns: int = 3) -> None:
    """Share of training steps whose action had to be projected, one panel per task, a bar per method."""
    tasks, panels, figure = _panels(runs, columns)
    for task, panel in zip(tasks, panels.flat, strict=False):
        for index, (method, colour) in enumerate(zip(methods, COLOURS, strict=False)):
            shares = [run["training"]["cv_percent"] for run in runs if (run["task"], run["method"]) == (task, method)]
            if shares:
                panel.bar(index, np.mean(shares), color=colour, width=0.7)
                panel.text(index, np.mean(shares) + 1, f"{np.mean(shares):.3g}", ha="center", fontsize=8)
        panel.set_xticks(range(len(methods)), methods, rotation=35, ha="right", fontsize=8)
        panel.set(title=task, ylabel="% of training steps", ylim=(0, 108))
    figure.savefig(path, dpi=110)


def _panels(runs: Runs, columns: int) -> tuple[list[str], Any, Any]:
    """Tasks, a panel for each, and their figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(run["task"] for run in runs))
    columns = min(columns, len(tasks))
    rows = -(-len(tasks) // columns)
    figure = Figure(figsize=(4 * columns, 2.9 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False)
    for panel in panels.flat[len(tasks) :]:
        panel.set_visible(False)
    return tasks, panels, figure
