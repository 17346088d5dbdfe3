"""What people see in a terminal: progress bars and tables, on stderr and stdout apart so that pipes stay clean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table


@contextmanager
def fit_progress(title: str, steps: int) -> Iterator[Any]:
    """A bar with loss, accuracy and recall; yields the callback for `fit`."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task(title, total=steps, figures="compiling")

        def advance(step: int, loss: float, check: Any) -> None:
            figures = f"loss {loss:.3f}"
            if check is not None:
                figures += f"  accuracy {check.accuracy:.2%}  recall {check.recall:.2%}"
            bar.update(line, completed=step, figures=figures)

        yield advance


def print_fit(figures: dict[str, Any]) -> None:
    """The figures of a fitted map."""
    console = Console()
    table = Table(box=None, show_header=False, padding=(0, 2))
    counted = f"{figures['infeasible']} of {figures['latents']:,} actions infeasible"
    took = f"{figures['seconds']:.1f} s; {figures['total_seconds']:.1f} s with compilation and measuring"
    for name, value, words in (
        ("task", figures["task"], f"seed {figures['seed']}"),
        ("map", figures["map"], f"{figures['gradient_steps']} gradient steps in {took}"),
        ("accuracy", f"{figures['accuracy']:.3%}", f"{counted}, in {figures['contexts']} contexts"),
        ("recall", f"{figures['recall']:.2%}", "of the allowed actions are reached"),
        ("F1", f"{figures['f1']:.2%}", "of the two"),
        ("KL to uniform", f"{figures['kl']:.3f}", "nats; 0 when every allowed action is as likely"),
        ("violation", f"{figures['mean_violation']:.2g}", "mean CV"),
    ):
        table.add_row(name, f"[bold]{value}[/bold]", f"[dim]{words}[/dim]")
    console.print(table)
    console.print(f"saved {figures['out']}/map.safetensors, map.json and {figures['picture']}", style="dim")
