"""Tables of results and catalogues on stdout. No word is broken at 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cvflows.figures import FitFigures, MethodRow, RunFigures, SelfTestFigures, SettingRow, SignalFigures, TaskRow

Cell = str | Text
"""Plain text, brackets included, or text with a style."""
WIDE = 130
"""Columns of a terminal that shows every column of the tasks."""


def table_of(headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, right: Sequence[str] = ()) -> Table:
    """A table whose columns are at least as wide as their longest words; numbers under the headings `right`."""
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False, show_header=any(headings))
    texts = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    for index, heading in enumerate(headings):
        column = [heading, *(row[index].plain for row in texts)]
        longest = max(len(word) for text in column for word in (text.split() or [""]))
        table.add_column(Text(heading), min_width=longest, justify="right" if heading in right else "left")
    for row in texts:
        table.add_row(*row)
    return table


def bold(text: str) -> Text:
    """`text` in bold."""
    return Text(text, "bold")


def print_plain(console: Console, line: str) -> None:
    """A line as it is, brackets in paths included."""
    console.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[Cell]], right: Sequence[str] = ()) -> None:
    """A table under a title."""
    console = Console()
    console.print(Text(title, "bold"))
    console.print(table_of(headings, rows, right=right), highlight=False)


def print_tasks(rows: Sequence[TaskRow]) -> None:
    """The catalogue of tasks; a wide terminal shows formulas and contexts in columns of their own."""
    console = Console()
    cells: list[tuple[Cell, ...]] = []
    for row in rows:
        name = Text.assemble(bold(row["task"]), "\N{NO-BREAK SPACE}*" if row["in_paper"] else "")
        shape = "convex" if row["convex"] else "star" if row["star_shaped"] else "other"
        share = "" if row["feasible_share"] is None else f"{row['feasible_share']:.2%}"
        start = (name, row["environment"], str(row["action_dim"]), shape, share)
        if console.width >= WIDE:
            cells.append((*start, row["constraint"], row["formula"], row["contexts"]))
        else:
            cells.append((*start, f"{row['constraint']}\n{row['formula']}"))
    headings = ("task", "environment", "d", "shape", "share", "allowed")
    more = ("formula", "contexts p_S") if console.width >= WIDE else ()
    console.print(table_of((*headings, *more), cells, right=("share",)), highlight=False)
    notes = (
        "* in the paper's benchmark; every set also keeps the action box |aᵢ| ≤ 1",
        "shape: convex, or star-shaped about an inner point; share: of the action box that is allowed, "
        "averaged over the contexts p_S",
        f"each is a Gymnasium environment too: gymnasium.make({rows[0]['gymnasium_id']!r})",
    )
    console.print("\n" + "\n".join(notes), style="dim", markup=False, highlight=False)


def print_methods(rows: Sequence[MethodRow]) -> None:
    """The catalogue of methods."""
    cells = [(bold(row["method"]), row["algorithm"], row["description"]) for row in rows]
    Console().print(table_of(("method", "algorithm", "description"), cells))


def print_settings(name: str, rows: Sequence[SettingRow]) -> None:
    """The settings of a method."""
    cells = [(bold(row["name"]), row["value"], row["allowed"], row["description"]) for row in rows]
    Console().print(table_of((name, "value", "allowed values", "description"), cells))


def print_run(figures: RunFigures) -> None:
    """How a run went."""
    console = Console()
    if "signal" in figures:
        _print_signal(console, figures["signal"])
    parts = {"training": figures.get("training"), "final": figures.get("final")}
    known = {name: part for name, part in parts.items() if part is not None}
    headings = ("", "episodes", "return", "CV %", "mean CV", "projected", "left %", "length")
    cells = [
        (
            name,
            f"{part['episodes']:,}",
            f"{part['return']:.2f} ± {part['return_std']:.2f}" if part["episodes"] else "none ended",
            f"{part['cv_percent']:.3f}",
            f"{part['cv_magnitude']:.2g}",
            f"{part['projections']:,}",
            f"{part['left_percent']:.2f}",
            f"{part['length']:.0f}",
        )
        for name, part in known.items()
    ]
    console.print(Text.assemble(bold(figures["method"]), " on ", bold(figures["task"])))
    console.print(table_of(headings, cells, right=headings[1:]))
    empty, executed = (
        sum(int(part.get(f"{name}_count", 0)) for part in known.values()) for name in ("empty", "executed")
    )
    if empty:
        console.print(
            f"no action was allowed at {empty:,} steps; {executed:,} forbidden ones were executed", style="red"
        )
    else:
        console.print("every executed action was allowed", style="dim")
    if "paper" in figures:
        best = figures["paper"]
        console.print(
            f"the paper's best return: {best['mean']:.2f} ± {best['spread']:.2f} ({best['method']})", style="dim"
        )
    if "seconds" in figures:
        rate = figures["steps_per_second"]
        speed = "" if rate is None else f" ({rate:,.0f} steps/s)"
        console.print(f"{figures['steps']:,} steps in {figures['seconds']:.0f} s{speed}", style="dim")
    for name, value in (
        ("out", figures.get("out")),
        ("picture", figures.get("picture")),
        ("video", figures.get("video")),
        ("missing", figures.get("missing")),
    ):
        if value is not None:
            print_plain(console, f"{name}: {value}")


def _print_signal(console: Console, signal: SignalFigures) -> None:
    """How well the change of every cost is predicted, and whether guarded episodes stayed within the limits."""
    source = f"{signal['transitions']:,} transitions"
    if signal["episodes"] is not None:
        source += f" of {signal['episodes']:,} random episodes"
    head = f"{signal['form']} constraint from {source}, {signal['model']} signal model, {signal['seconds']:.1f} s"
    console.print(head, style="dim")
    headings = ("limit", "held-out error", "of a spread of", "persistence", "push", "braking")
    cells = [
        (
            cost["limit"],
            f"{cost['error']:.2g}",
            f"{cost['spread']:.2g}",
            f"{cost['persistence']:.3f}",
            f"{cost['push']:.2g}",
            f"{cost['strength']:.2g}",
        )
        for cost in signal["costs"]
    ]
    console.print(table_of(headings, cells))
    if (tested := signal["self_test"]) is not None:
        _print_self_test(console, tested)


def _print_self_test(console: Console, tested: SelfTestFigures) -> None:
    """How many guarded episodes left the limits, and why."""
    cells = []
    for test in tested["policies"]:
        why = ", ".join(f"{row['limit']}: {row['cause']} {row['episodes']}" for row in test["exits"])
        if test["began_outside"]:
            why += f" ({test['began_outside']} more began outside)"
        left = Text(str(test["left"]), "red" if test["left"] else "green")
        cells.append((test["policy"], str(test["episodes"]), left, why))
    console.print(table_of(("guarded policy", "episodes", "left the limits", "why"), cells))


def print_fit(figures: FitFigures) -> None:
    """The figures of a fitted map."""
    console = Console()
    if "signal" in figures:
        _print_signal(console, figures["signal"])
    counted = f"{figures['infeasible']} of {figures['latents']:,} actions infeasible"
    seconds = f"{figures['seconds']:.1f} s; {figures['total_seconds']:.1f} s with compilation and measuring"
    rows = (
        ("task", figures["task"], f"seed {figures['seed']}"),
        ("map", figures["map"], f"{figures['gradient_steps']} gradient steps in {seconds}"),
        ("accuracy", f"{figures['accuracy']:.3%}", f"{counted}, in {figures['contexts']} contexts"),
        ("recall", f"{figures['recall']:.2%}", "of the allowed actions are reached"),
        ("covered", f"{figures['covered']:.2%}", "with at least a hundredth of the uniform density"),
        ("F1", f"{figures['f1']:.2%}", "of accuracy and recall"),
        ("KL to uniform", f"{figures['kl']:.3f}", "nats; 0 when every allowed action is equally likely"),
        ("violation", f"{figures['mean_violation']:.2g}", "mean CV"),
        ("calm", _known(figures["calm"]), _compared(figures)),
        ("Lipschitz", _known(figures["lipschitz"]), "largest move per entry and standard deviation of the context"),
        *([("transport", f"{figures['transport']:g}", "weight of this term")] if figures["transport"] else []),
    )
    console.print(table_of(("", "", ""), [(name, bold(value), Text(note, "dim")) for name, value, note in rows]))
    print_plain(console, f"saved {figures['out']}/map.safetensors, map.json and {figures['picture']}")


def _known(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _compared(figures: FitFigures) -> str:
    """What `calm` says, or why it is not known."""
    if figures["calm"] is None:
        return "no latent has two actions that both contexts allow"
    if not figures["compared"]:
        return "there are no contexts, so that no action moves"
    return f"mean move where it need not be, of {figures['compared']:,} latents"
