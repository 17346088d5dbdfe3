"""What people see in a terminal: progress bars and tables, on stderr and stdout apart so that pipes stay clean."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table


def _bar() -> Progress:
    """A bar with figures beside it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def fit_progress(title: str, steps: int) -> Iterator[Any]:
    """A bar with loss, accuracy and recall; yields the callback for `fit`."""
    with _bar() as bar:
        line = bar.add_task(escape(title), total=steps, figures="compiling")

        def advance(step: int, loss: float, check: Any) -> None:
            figures = f"loss {loss:.3f}"
            if check is not None:
                figures += f"  accuracy {check.accuracy:.2%}  recall {check.recall:.2%}"
            bar.update(line, completed=step, figures=figures)

        yield advance


@contextmanager
def train_progress(title: str, steps: int) -> Iterator[Any]:
    """A bar with speed, return and violations; yields the callback for `Trainer.run`."""
    with _bar() as bar:
        line = bar.add_task(escape(title), total=steps, figures="compiling")
        last: dict[str, float] = {}

        def advance(trainer: Any) -> None:
            if not last:  # a resumed run does not begin at 0
                last.update(time=time.perf_counter(), step=trainer.step)
            passed = time.perf_counter() - last["time"]
            if passed < 0.5:
                return
            recent = trainer.episodes[-20:]
            figures = f"{(trainer.step - last['step']) / passed:,.0f} steps/s"
            if trainer.step < (starts := trainer.config.random_steps):
                figures += f"  random until {starts:,}"
            last.update(time=last["time"] + passed, step=trainer.step)
            if recent:
                length = sum(episode.length for episode in recent)
                cv = 100 * sum(episode.violations for episode in recent) / max(length, 1)
                figures += f"  return {sum(episode.reward for episode in recent) / len(recent):.1f}  CV {cv:.2f} %"
            bar.update(line, completed=trainer.step, figures=figures)

        yield advance


@contextmanager
def count_progress(title: str, total: int) -> Iterator[Any]:
    """A plain bar, shown when counting begins; yields a callback for the count."""
    with _bar() as bar:
        line = bar.add_task(escape(title), total=total, figures="", visible=False)
        yield lambda count: bar.update(line, completed=count, visible=True)


@contextmanager
def collect_progress(title: str) -> Iterator[Any]:
    """A spinner with the number of transitions so far; yields the callback for `learn_task`."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:,.0f}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task(escape(title), total=None)
        yield lambda count: bar.update(line, completed=count)


def print_run(figures: dict[str, Any]) -> None:
    """How a run went."""
    if "signal" in figures:
        _print_signal(Console(), figures["signal"])
    table = Table(box=None, header_style="bold", padding=(0, 1))
    for heading in ("", "episodes", "return", "CV %", "mean CV", "projected", "left %", "length"):
        table.add_column(heading, no_wrap=True, justify="right" if heading else "left")
    for name in ("training", "final"):
        if (part := figures.get(name)) is not None:
            spread = f"{part['return']:.2f} ± {part['return_std']:.2f}"
            shares = (f"{part['cv_percent']:.3f}", f"{part['cv_magnitude']:.2g}", f"{part['projections']:,}")
            table.add_row(
                name, f"{part['episodes']}", spread, *shares, f"{part['left_percent']:.2f}", f"{part['length']:.0f}"
            )
    console = Console()
    console.print(f"[bold]{escape(figures['method'])}[/bold] on [bold]{escape(figures['task'])}[/bold]")
    console.print(table)
    parts = [part for part in (figures.get("training"), figures.get("final")) if part is not None]
    empty, executed = (sum(part.get(f"{name}_count", 0) for part in parts) for name in ("empty", "executed"))
    if empty:
        console.print(
            f"no action was allowed at {empty:,} steps; {executed:,} forbidden ones were executed", style="red"
        )
    else:
        console.print("every executed action was allowed", style="dim")
    if "seconds" in figures:
        rate = figures["steps_per_second"]
        speed = "" if rate is None else f" ({rate:,.0f} steps/s)"
        console.print(f"{figures['steps']:,} steps in {figures['seconds']:.0f} s{speed}", style="dim")
    for name in ("out", "picture", "video", "missing"):
        if name in figures:
            _print_plain(console, f"{name}: {figures[name]}")


def _print_plain(console: Console, line: str) -> None:
    """A line as it is, brackets in paths included."""
    console.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)


def print_tasks(rows: list[dict[str, Any]]) -> None:
    """The catalogue of tasks."""
    table = Table(box=None, header_style="bold", padding=(0, 1))
    headings = ("task", "environment", "allowed", "formula", "d", "convex", "star", "contexts p_S", "share")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        share = f"{row['feasible_share']:.2%}"
        convex, star = ("yes" if row[key] else "no" for key in ("convex", "star_shaped"))
        name = f"[bold]{row['task']}[/bold]" + (" *" if row["in_paper"] else "")
        words = (row["environment"], row["constraint"], row["formula"], row["action_dim"], convex, star)
        table.add_row(name, *map(str, (*words, row["contexts"], share)))
    console = Console()
    console.print(table)
    notes = (
        "* in the paper's benchmark; every set also keeps the action box |aᵢ| ≤ 1",
        "star: star-shaped about an inner point; share: of the action box that is feasible, averaged over p_S",
        f"each is a Gymnasium environment too: gymnasium.make({rows[0]['gymnasium_id']!r})",
    )
    console.print("\n" + "\n".join(notes), style="dim")


def print_methods(rows: list[dict[str, Any]]) -> None:
    """The catalogue of methods."""
    table = Table(box=None, header_style="bold", padding=(0, 1))
    for heading in ("method", "algorithm", "in a line"):
        table.add_column(heading, overflow="fold", no_wrap=heading != "in a line")
    for row in rows:
        table.add_row(f"[bold]{row['method']}[/bold]", row["algorithm"], row["description"])
    Console().print(table)


def print_settings(name: str, rows: list[dict[str, Any]]) -> None:
    """The settings of a method."""
    table = Table(box=None, header_style="bold", padding=(0, 1))
    for heading in (f"{name}", "value", "takes", "what it is"):
        table.add_column(heading, overflow="fold", no_wrap=heading == name)
    for row in rows:
        table.add_row(f"[bold]{row['name']}[/bold]", row["value"], row["allowed"], row["description"])
    Console().print(table)


def _print_signal(console: Console, signal: dict[str, Any]) -> None:
    """How well the change of every cost is predicted, and whether the limits were kept when the guard was tried."""
    source = f"{signal['transitions']:,} transitions"
    if signal["episodes"] is not None:
        source += f" of {signal['episodes']:,} random episodes"
    head = f"{signal['form']} constraint from {source}, {signal['model']} signal model, {signal['seconds']:.1f} s"
    console.print(head, style="dim")
    table = Table(box=None, header_style="bold", padding=(0, 2))
    for heading in ("limit", "held-out error", "of a spread of", "persistence", "push", "braking"):
        table.add_column(heading)
    for cost in signal["costs"]:
        errors = f"{cost['error']:.2g}", f"{cost['spread']:.2g}", f"{cost['persistence']:.3f}"
        table.add_row(cost["limit"], *errors, f"{cost['push']:.2g}", f"{cost['strength']:.2g}")
    console.print(table)
    if (tried := signal["self_test"]) is not None:
        _print_self_test(console, tried)


def _print_self_test(console: Console, tried: dict[str, Any]) -> None:
    """How many guarded episodes left the limits, and why."""
    table = Table(box=None, header_style="bold", padding=(0, 2))
    for heading in ("guarded policy", "episodes", "left the limits", "why"):
        table.add_column(heading)
    for test in tried["policies"]:
        why = ", ".join(f"{row['limit']}: {row['cause']} {row['episodes']}" for row in test["exits"])
        if test["began_outside"]:
            why += f" ({test['began_outside']} more began outside)"
        style = "red" if test["left"] else "green"
        table.add_row(test["policy"], f"{test['episodes']}", f"[{style}]{test['left']}[/{style}]", why)
    console.print(table)


def print_fit(figures: dict[str, Any]) -> None:
    """The figures of a fitted map."""
    console = Console()
    if "signal" in figures:
        _print_signal(console, figures["signal"])
    table = Table(box=None, show_header=False, padding=(0, 2))
    counted = f"{figures['infeasible']} of {figures['latents']:,} actions infeasible"
    took = f"{figures['seconds']:.1f} s; {figures['total_seconds']:.1f} s with compilation and measuring"
    for name, value, words in (
        ("task", figures["task"], f"seed {figures['seed']}"),
        ("map", figures["map"], f"{figures['gradient_steps']} gradient steps in {took}"),
        ("accuracy", f"{figures['accuracy']:.3%}", f"{counted}, in {figures['contexts']} contexts"),
        ("recall", f"{figures['recall']:.2%}", "of the allowed actions are reached"),
        ("covered", f"{figures['covered']:.2%}", "with at least a hundredth of the uniform density"),
        ("F1", f"{figures['f1']:.2%}", "of the two"),
        ("KL to uniform", f"{figures['kl']:.3f}", "nats; 0 when every allowed action is as likely"),
        ("violation", f"{figures['mean_violation']:.2g}", "mean CV"),
    ):
        table.add_row(name, f"[bold]{escape(str(value))}[/bold]", f"[dim]{escape(words)}[/dim]")
    console.print(table)
    _print_plain(console, f"saved {figures['out']}/map.safetensors, map.json and {figures['picture']}")


STYLES = {
    "failed": "red",
    "unreadable": "red",
    "running": "cyan",
    "cut off": "yellow",
    "waiting": "dim",
    "complete": "green",
}
"""A cell has the colour of the first state that any of its runs is in."""


class RunsView:
    """Many runs: how many of each task and method are complete, and those that go on now."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, int]] = {}
        self._speed: dict[str, float] = {}

    def render(self, statuses: Iterable[Any], preparing: Iterable[str] = ()) -> Group:
        """The view as of now; `preparing` names what runs wait for."""
        some = list(statuses)
        parts: list[Any] = [self._matrix(some)]
        going = [status for status in some if status.state in ("running", "cut off") and status.step < status.steps]
        if going:
            parts += ["", self._going(going)]
        parts += [f"[dim]preparing {escape(name)}[/dim]" for name in preparing]
        parts += [f"[red]{escape(f'{status.folder}: {status.problem}')}[/red]" for status in some if status.problem]
        return Group(*parts)

    def _matrix(self, statuses: list[Any]) -> Table:
        methods = list(dict.fromkeys(status.method for status in statuses))
        table = Table(box=None, header_style="bold", padding=(0, 2))
        for heading in ("complete", *methods):
            table.add_column(escape(heading), justify="left" if heading == "complete" else "right")
        for task in dict.fromkeys(status.task for status in statuses):
            cells = []
            for method in methods:
                here = [status for status in statuses if (status.task, status.method) == (task, method)]
                states = [status.state for status in here]
                whole = states.count("complete")
                style = next((style for state, style in STYLES.items() if state in states), "dim")
                cells.append(f"[{style}]{whole}/{len(here)}[/{style}]" if here else "")
            table.add_row(f"[bold]{escape(task)}[/bold]", *cells)
        return table

    def _going(self, statuses: list[Any]) -> Table:
        table = Table(box=None, header_style="bold", padding=(0, 1))
        for heading in ("run", "", "steps", "steps/s", "return", "CV %", "left"):
            table.add_column(heading, no_wrap=True, justify="left" if heading in ("run", "") else "right")
        for status in statuses:
            speed = self._speed_of(status)
            left = f"{(status.steps - status.step) / speed / 60:.0f} min" if speed else ""
            name = escape(f"{status.task} {status.method} {status.seed}")
            table.add_row(
                name if status.state == "running" else f"[dim]{name} (cut off)[/dim]",
                ProgressBar(status.steps, status.step, width=24),
                f"{status.step:,}/{status.steps:,}",
                f"{speed:,.0f}" if speed else "",
                "" if math.isnan(status.value) else f"{status.value:.1f}",
                "" if math.isnan(status.cv_percent) else f"{status.cv_percent:.2f}",
                left,
            )
        return table

    def _speed_of(self, status: Any) -> float:
        """Steps per second since the first look at a run."""
        now, key = time.monotonic(), str(status.folder)
        since, step = self._seen.setdefault(key, (now, status.step))
        if status.step > step and now > since:
            self._speed[key] = (status.step - step) / (now - since)
        return self._speed.get(key, 0.0)


@contextmanager
def live_runs() -> Iterator[Any]:
    """A live view on stderr; yields the callback that draws it."""
    view = RunsView()
    with Live(console=Console(stderr=True), refresh_per_second=2, transient=True) as live:
        yield lambda statuses, preparing=(): live.update(view.render(statuses, preparing))


def print_runs(statuses: Iterable[Any]) -> None:
    """The same, once."""
    Console().print(RunsView().render(statuses))


def print_lines(lines: Iterable[str], notes: Iterable[str] = ()) -> None:
    """Lines, and notes dimly below them."""
    for line in lines:
        print(line)
    console = Console(stderr=True)
    for note in notes:
        _print_plain(console, note)


def print_warning(text: str) -> None:
    """One line on stderr."""
    Console(stderr=True).print(f"warning: {text}", style="yellow", highlight=False, markup=False, soft_wrap=True)
