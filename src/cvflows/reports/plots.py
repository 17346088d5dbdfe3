"""The figures of a report as PNG and PDF."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cvflows.reports.page import colour_of
from cvflows.reports.tables import Aggregate, Interval, Tables

COLUMNS = 4
FORMATS = ("png", "pdf")


def write_plots(tables: Tables, folder: Path) -> list[Path]:
    """Learning curves, violations over training, and, with several methods, aggregates."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {
        "learning": _curves(tables, "return", "return"),
        "violations": _curves(tables, "violations", "forbidden so far, %"),
    }
    if tables.aggregates():
        figures["aggregate"] = _aggregates(tables)
    written = []
    for name, figure in figures.items():
        for kind in FORMATS:
            path = folder / f"{name}.{kind}"
            figure.savefig(path, dpi=150, metadata={"CreationDate": None} if kind == "pdf" else None)
            written.append(path)
    return written


def _curves(tables: Tables, group: str, label: str) -> Figure:
    """One panel per task."""
    columns = min(COLUMNS, len(tables.tasks))
    rows = -(-len(tables.tasks) // columns)
    figure, panels = _panels(rows, columns, (3.2, 2.5))
    curves = tables.curves(group)
    for panel in panels[len(tables.tasks) :]:
        panel.set_visible(False)
    for task, panel in zip(tables.tasks, panels, strict=False):
        for curve in (curve for curve in curves if curve.task == task):
            colour = colour_of(tables, curve.method)
            steps = [step / 1000 for step in curve.step]
            panel.plot(
                steps, curve.value, color=colour, lw=1.6, label=curve.method, marker="o" if len(steps) < 2 else ""
            )
            panel.fill_between(steps, curve.low, curve.high, color=colour, alpha=0.18, lw=0)
        panel.set_title(task, fontsize=10)
        panel.set_xlabel("thousand steps", fontsize=8)
        panel.set_ylabel(label, fontsize=8)
    handles = {name: line for panel in panels for line, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(
        handles.values(), handles, loc="outside lower center", ncols=min(len(handles), 6), frameon=False, fontsize=9
    )
    return figure


def _aggregates(tables: Tables) -> Figure:
    """IQM of normalised returns, and the probability of improvement."""
    rows = tables.aggregates()
    figure, panels = _panels(1, 2, (4.2, 0.9 + 0.32 * len(rows)))
    first = tables.methods[0]
    parts: tuple[tuple[Callable[[Aggregate], Interval | None], str], ...] = (
        (lambda row: row["iqm"], "IQM of normalised returns"),
        (lambda row: row.get("beaten"), f"P({first} is better)"),
    )
    for panel, (choose, label) in zip(panels, parts, strict=True):
        some = [(row["method"], estimate) for row in rows if (estimate := choose(row)) is not None]
        for place, (method, estimate) in enumerate(some):
            colour = colour_of(tables, method)
            panel.plot([estimate["low"], estimate["high"]], [place, place], color=colour, lw=5, alpha=0.4)
            panel.plot(estimate["value"], place, "o", color=colour)
        panel.set_yticks(range(len(some)), [method for method, _ in some], fontsize=8)
        panel.invert_yaxis()
        panel.set_xlabel(label, fontsize=9)
    return figure


def _panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(size[0] * columns, size[1] * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel in panels:
        panel.grid(alpha=0.3)
        panel.tick_params(labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, list(panels)
