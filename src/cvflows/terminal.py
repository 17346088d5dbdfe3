"""Progress in a terminal: bars for one run, a live table for many. Bars are on stderr, so that pipes stay clean."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Protocol

from rich.console import Console, ConsoleRenderable, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cvflows.figures import Status, seconds_left
from cvflows.printing import bold, print_plain, table_of

Count = Callable[[int], None]
"""Told how many are done."""


class FitCheck(Protocol):
    """What is measured during a fit."""

    @property
    def accuracy(self) -> float:
        """Share of latents whose actions are allowed."""

    @property
    def recall(self) -> float:
        """Share of allowed actions that are reached."""


class EpisodeFigures(Protocol):
    """What is counted in an episode."""

    @property
    def reward(self) -> float:
        """Sum of its rewards."""

    @property
    def length(self) -> int:
        """Its steps."""

    @property
    def violations(self) -> int:
        """Forbidden actions that the policy asked for."""


class Training(Protocol):
    """A run in progress."""

    @property
    def step(self) -> int:
        """Steps so far."""

    @property
    def random_steps(self) -> int:
        """Steps at the start that take random actions."""

    @property
    def episodes(self) -> Sequence[EpisodeFigures]:
        """Episodes so far."""


PROGRESS = "cvflows.progress"
"""The logger of bars and notes: `logging.getLogger("cvflows.progress").setLevel(logging.ERROR)` hides them."""


def _console() -> Console:
    """stderr, silent where that logger is; in a notebook without ipywidgets plain, since rich would warn."""
    quiet = not logging.getLogger(PROGRESS).isEnabledFor(logging.WARNING)
    return Console(stderr=True, quiet=quiet, force_jupyter=None if find_spec("ipywidgets") else False)


def _bar() -> Progress:
    """A bar followed by figures."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=_console(), transient=True)


@contextmanager
def fit_progress(title: str, steps: int) -> Iterator[Callable[[int, float, FitCheck | None], None]]:
    """A bar with loss, accuracy and recall; yields the callback for `fit`."""
    with _bar() as bar:
        line = bar.add_task(escape(title), total=steps, figures="compiling")

        def advance(step: int, loss: float, check: FitCheck | None) -> None:
            figures = f"loss {loss:.3f}"
            if check is not None:
                figures += f"  accuracy {check.accuracy:.2%}  recall {check.recall:.2%}"
            bar.update(line, completed=step, figures=figures)

        yield advance


@contextmanager
def train_progress(title: str, steps: int) -> Iterator[Callable[[Training], None]]:
    """A bar with speed, return and violations; yields the callback for `Trainer.run`."""
    with _bar() as bar:
        line = bar.add_task(escape(title), total=steps, figures="compiling")
        last: dict[str, float] = {}

        def advance(trainer: Training) -> None:
            if not last:  # a resumed run does not begin at 0
                last.update(time=time.perf_counter(), step=trainer.step)
            passed = time.perf_counter() - last["time"]
            if passed < 0.5:
                return
            recent = trainer.episodes[-20:]
            figures = f"{(trainer.step - last['step']) / passed:,.0f} steps/s"
            if trainer.step < trainer.random_steps:
                figures += f"  random until {trainer.random_steps:,}"
            last.update(time=last["time"] + passed, step=trainer.step)
            if recent:
                length = sum(episode.length for episode in recent)
                cv = 100 * sum(episode.violations for episode in recent) / max(length, 1)
                figures += f"  return {sum(episode.reward for episode in recent) / len(recent):.1f}  CV {cv:.2f} %"
            bar.update(line, completed=trainer.step, figures=figures)

        yield advance


@contextmanager
def count_progress(title: str, total: int) -> Iterator[Count]:
    """A plain bar, shown when counting begins; yields a callback for the count."""
    with _bar() as bar:
        line = bar.add_task(escape(title), total=total, figures="", visible=False)
        yield lambda count: bar.update(line, completed=count, visible=True)


@contextmanager
def collect_progress(title: str) -> Iterator[Count]:
    """A spinner with the number of transitions so far; yields the callback for `learn_task`."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:,.0f}"))
    with Progress(*columns, console=_console(), transient=True) as bar:
        line = bar.add_task(escape(title), total=None)
        yield lambda count: bar.update(line, completed=count)


MOST = 20
"""Rows of runs in progress."""
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
    """Many runs: how many of each task and method are complete, what is left, and the runs in progress."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, int]] = {}
        self._speed: dict[str, float] = {}

    def render(self, statuses: Iterable[Status], preparing: Iterable[str] = (), width: int = 80) -> Group:
        """The view as of now, for a terminal of that width; `preparing` names what runs wait for."""
        some = list(statuses)
        parts: list[ConsoleRenderable] = list(_counts(some, width))
        for status in some:
            self._speed_of(status)
        parts += [Text(), Text(self._summary(some))]
        started = [status for status in some if status.state in ("running", "cut off") and status.step < status.steps]
        started.sort(key=lambda status: (status.state != "running", status.steps - status.step))
        if started:
            parts += [Text(), self._progress(started[:MOST])]
            parts += [Text(f"and {len(started) - MOST} more that have begun", "dim")] if len(started) > MOST else []
        parts += [Text(f"preparing {name}", "dim") for name in preparing]
        parts += [Text(f"{status.folder}: {status.problem}", "red") for status in some if status.problem]
        return Group(*parts)

    def _summary(self, statuses: list[Status]) -> str:
        """One line: how many runs are in which state, what is left at this rate, and the memory they take."""
        counts: Counter[str] = Counter(status.state for status in statuses)
        words = [f"{counts[state]} {state}" for state in reversed(STYLES) if counts[state]]
        left, memory = seconds_left(statuses, self._speed), sum(status.memory for status in statuses)
        rate = f"; {duration(left)} left" if left else ""
        return f"{len(statuses)} runs: {', '.join(words)}{rate}{f'; {memory / 1e9:.1f} GB' if memory else ''}"

    def _progress(self, statuses: list[Status]) -> Table:
        headings = ("run", "", "steps", "steps/s", "return", "CV %", "left")
        table = table_of(headings, [], right=headings[2:])
        for status in statuses:
            speed = self._speed_of(status) or (0.0 if math.isnan(status.speed) else status.speed)
            cut = status.state == "cut off"
            name = f"{status.task} {status.method} {status.seed}{' (cut off)' if cut else ''}"
            table.add_row(
                Text(name, "dim" if cut else ""),
                ProgressBar(status.steps, status.step, width=8),
                f"{status.step:,}/{status.steps:,}",
                f"{speed:,.0f}" if speed else "",
                "" if math.isnan(status.value) else f"{status.value:.1f}",
                "" if math.isnan(status.cv_percent) else f"{status.cv_percent:.2f}",
                duration((status.steps - status.step) / speed) if speed and not cut else "",
            )
        table.columns[0].min_width = max(len(word) for status in statuses for word in (status.task, status.method))
        for column in table.columns[1:]:
            column.no_wrap = True
        return table

    def _speed_of(self, status: Status) -> float:
        """Steps per second since the first look at a run."""
        now, key = time.monotonic(), str(status.folder)
        since, step = self._seen.setdefault(key, (now, status.step))
        if status.step > step and now > since:
            self._speed[key] = (status.step - step) / (now - since)
        return self._speed.get(key, 0.0)


def duration(seconds: float) -> str:
    """In words of two units at most."""
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _counts(statuses: list[Status], width: int) -> Iterator[Table]:
    """Complete runs by task and method: as many tables, one below the other, as the methods need."""
    tasks = list(dict.fromkeys(status.task for status in statuses))
    methods = list(dict.fromkeys(status.method for status in statuses))
    first = max(map(len, ("complete", *tasks)))
    while methods:
        some = methods[:1]
        while len(some) < len(methods) and first + sum(len(name) + 2 for name in methods[: len(some) + 1]) <= width:
            some = methods[: len(some) + 1]
        methods = methods[len(some) :]
        rows = [(bold(task), *(_count(statuses, task, method) for method in some)) for task in tasks]
        yield table_of(("complete", *some), rows, right=some)


def _count(statuses: list[Status], task: str, method: str) -> Text:
    states = [status.state for status in statuses if (status.task, status.method) == (task, method)]
    style = next((style for state, style in STYLES.items() if state in states), "dim")
    return Text(f"{states.count('complete')}/{len(states)}", style) if states else Text()


@contextmanager
def live_runs() -> Iterator[Callable[[Iterable[Status], Iterable[str]], None]]:
    """A live view on stderr; yields the callback that draws statuses and the names of what is being prepared."""
    view, console = RunsView(), _console()
    with Live(console=console, refresh_per_second=2, transient=True) as live:
        yield lambda statuses, preparing: live.update(view.render(statuses, preparing, console.width))


def print_runs(statuses: Iterable[Status]) -> None:
    """The same, once."""
    console = Console()
    console.print(RunsView().render(statuses, width=console.width))


def print_lines(lines: Iterable[str], notes: Iterable[str] = ()) -> None:
    """Lines, and notes dimly below them."""
    for line in lines:
        print(line)
    console = _console()
    for note in notes:
        print_plain(console, note)


def print_warning(text: str) -> None:
    """One line on stderr."""
    Console(stderr=True).print(f"warning: {text}", style="yellow", highlight=False, markup=False, soft_wrap=True)
