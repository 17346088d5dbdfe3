"""The paper's tables, ours beside theirs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from cvflows.commands.output import print_json

if TYPE_CHECKING:
    from cvflows.reports.reproduction import Choice, FlowRow
    from cvflows.reports.tables import TableCell


def reproduce(
    table: Annotated[str | None, Positional, arg(metavar="[TABLE]")] = None,
    task: Annotated[tuple[str, ...] | None, arg(metavar="TASK ...")] = None,
    method: Annotated[tuple[str, ...] | None, arg(metavar="METHOD ...")] = None,
    budget: Literal["quick", "full"] = "quick",
    train: bool = True,
    workers: int | None = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Repeat a table of the paper, or some of its cells; without a table, list them.

    What is complete is not trained again, and what was interrupted is resumed.

    Args:
        table: Name of a table, or `all`.
        task: Only these tasks.
        method: Only these methods.
        budget: `quick` takes minutes per cell and shows how; `full` takes hours, and is what the documentation shows.
        train: Train what is missing; `--no-train` shows what there is.
        workers: Processes at a time, by default one per core.
        out: Folder of the runs, by default runs/paper-BUDGET.
        json: Print one JSON object instead of tables.
    """
    from cvflows.reports.reproduction import PAPER, Choice, cells_of

    if table is None:
        from cvflows.printing import print_table

        if json:
            return print_json({name: found.title for name, found in PAPER.items()})
        print_table("cvflows reproduce TABLE", ("table", "what it shows"), [(n, t.title) for n, t in PAPER.items()])
        return None
    choice = Choice.of(table, budget, task, method)
    folder = Path(f"runs/paper-{budget}") if out is None else out
    failures = _train(choice, folder, workers) if train else {}
    cells, flows = cells_of(choice, folder), _flows(choice, folder, train)
    if json:
        print_json({"out": str(folder), "tables": cells, "flows": flows, "failures": failures})
    else:
        _print(choice, cells, flows)
        for name, problem in failures.items():
            print(f"cvflows: {name}: {problem}", file=sys.stderr)
    if failures:
        raise SystemExit(1)
    return None


def _train(choice: Choice, out: Path, workers: int | None) -> dict[str, str]:
    """Train what is missing; what failed, and why."""
    grids = choice.grids()
    if not grids:
        return {}
    from cvflows.runs.launch import Local
    from cvflows.runs.suite import Suite
    from cvflows.terminal import live_runs

    with live_runs() as draw:
        figures = Suite(grids, out).run(Local(workers), lambda suite: draw(suite.statuses.values(), suite.preparing))
    return figures["failures"]


def _flows(choice: Choice, out: Path, train: bool) -> list[FlowRow]:
    from cvflows.reports.reproduction import FLOW_STEPS, WAYS, fit_flow
    from cvflows.terminal import fit_progress

    found = []
    for name in choice.flow_tasks():
        for way in WAYS:
            with fit_progress(f"{name} from {way}", FLOW_STEPS[choice.budget]) as tick:
                row = fit_flow(name, way, choice.budget, out, train=train, progress=tick)
            found += [] if row is None else [row]
    return found


def _print(choice: Choice, cells: dict[str, list[TableCell]], flows: Iterable[FlowRow]) -> None:
    from cvflows.printing import print_table
    from cvflows.reports.reproduction import FLOWS, PAPER

    headings = ("task", "method", "ours", "seeds", "steps", "paper")
    for title, some in cells.items():
        rows = [
            (
                cell["task"],
                cell["method"],
                _with_spread(cell["mean"], cell["spread"]),
                str(cell["seeds"]),
                f"{cell['steps']:,}",
                "" if cell["paper"] is None else _with_spread(cell["paper"], cell["paper_spread"]),
            )
            for cell in some
        ]
        name = title.partition(":")[0]
        print_table(f"\n{PAPER[name].title} ({title})", headings, rows, right=headings[2:])
        if not rows:
            print("nothing is complete yet")
    if choice.flow_tasks():
        names = ("task", "fitted to", "accuracy", "recall", "F1", "steps", "seconds")
        lines = []
        for row in flows:
            shares = [f"{value:.1%}" for value in (row["accuracy"], row["recall"], row["f1"])]
            counts = [f"{row['gradient_steps']:,}", f"{row['seconds']:.0f}"]
            lines.append([row["task"], row["fitted_to"], *shares, *counts])
        print_table(f"\n{FLOWS.title}", names, lines, right=names[2:])


def _with_spread(mean: float, spread: float | None) -> str:
    digits = 0 if abs(mean) >= 1000 else 2
    return f"{mean:,.{digits}f}" + ("" if spread is None else f" ± {spread:,.{digits}f}")
