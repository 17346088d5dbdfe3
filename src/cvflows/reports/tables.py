"""The figures of a report, from records: groups, tables, curves, aggregates. Plain data, for any medium."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NotRequired, TypedDict

import numpy as np

from cvflows.errors import UnknownNameError
from cvflows.reports.paper import reported
from cvflows.reports.records import Loaded, Record, metric_of
from cvflows.reports.stats import Estimate, aggregate, curve, improvement
from cvflows.runs.config import as_command
from cvflows.tasks.catalogue import TASKS
from cvflows.tasks.catalogue import task as find_task

POINTS = 100
"""Points of a curve of violations."""


class TableCell(TypedDict):
    """One method on one task: mean and spread over seeds, and what the paper reports."""

    task: str
    method: str
    seeds: int
    mean: float
    spread: float | None
    steps: int
    paper: float | None
    paper_spread: float | None
    difference: float | None
    counts: str


class Interval(TypedDict):
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float


class Aggregate(TypedDict):
    """One method over all tasks; `beaten`: how likely a run of the first method is better."""

    method: str
    iqm: Interval
    tasks: int
    beaten: NotRequired[Interval]


class RunsRow(TypedDict):
    """The runs of one method on one task."""

    task: str
    method: str
    steps: list[int]
    seeds: list[int]
    complete: int
    command: str
    versions: str
    seconds: float
    empty: int | None
    executed: int | None


@dataclass(frozen=True)
class Curve:
    """One method on one task over training: IQM of the seeds and its 95 % interval."""

    task: str
    method: str
    step: list[float]
    value: list[float]
    low: list[float]
    high: list[float]
    seeds: int


class Tables:
    """What a report shows."""

    def __init__(self, loaded: Loaded) -> None:
        self.records, self.notes = loaded.records, loaded.notes
        known = list(TASKS)
        self.tasks = sorted(loaded.names("task"), key=lambda name: known.index(name) if name in known else len(known))
        self.methods = _ours_first(loaded.names("method"))

    def group(self, task: str, method: str) -> list[Record]:
        """The runs of one cell."""
        return [record for record in self.records if record.key[:2] == (task, method)]

    def cells(self, name: str) -> list[TableCell]:
        """For every task and method: mean, spread over seeds, the paper's mean, and the difference.

        `name` is return, training, final (violations in percent), forbidden (actions in percent), magnitude or speed.
        """
        found: list[TableCell] = []
        for task in self.tasks:
            for method in self.methods:
                values = np.array([_value(record, name) for record in self.group(task, method)])
                values = values[np.isfinite(values)]
                if not len(values):
                    continue
                paper = reported(name).get((task, method)) if name in ("return", "training", "final") else None
                steps = {record.config.steps for record in self.group(task, method)}
                found.append(
                    {
                        "task": task,
                        "method": method,
                        "seeds": len(values),
                        "mean": float(values.mean()),
                        "spread": float(values.std(ddof=1)) if len(values) > 1 else None,
                        "steps": max(steps),
                        "paper": paper.mean if paper else None,
                        "paper_spread": paper.spread if paper else None,
                        "difference": float(values.mean()) - paper.mean if paper else None,
                        "counts": metric_of(task),
                    }
                )
        return found

    def curves(self, name: str) -> list[Curve]:
        """Over training: `return` of the evaluations, or `violations`, the percentage of forbidden actions so far."""
        found = []
        for task in self.tasks:
            for method in self.methods:
                found_lines = (_line(record, name) for record in self.group(task, method))
                lines = [line for line in found_lines if line is not None and len(line[0])]
                if lines:
                    found.append(_curve(task, method, lines))
        return found

    def normalised(self) -> dict[str, dict[str, np.ndarray]]:
        """Final returns by method and task: 0 is the lowest mean of any method on the task, 1 the highest.

        Only tasks that every method has been run on; none when fewer than two methods share one.
        """
        shared = [task for task in self.tasks if all(self.group(task, method) for method in self.methods)]
        scores: dict[str, dict[str, np.ndarray]] = {method: {} for method in self.methods}
        for task in shared if len(self.methods) > 1 else []:
            returns = {m: np.array([record.last_return for record in self.group(task, m)]) for m in self.methods}
            means = [float(np.mean(values)) for values in returns.values()]
            if not np.isfinite(means).all():
                continue
            width = max(max(means) - min(means), 1e-9)
            for method, values in returns.items():
                scores[method][task] = (values - min(means)) / width
        return scores if any(scores.values()) else {}

    def aggregates(self) -> list[Aggregate]:
        """For every method, the IQM of normalised returns over tasks, and how likely the first method is better."""
        scores = self.normalised()
        found = []
        for method, by_task in scores.items():
            if not by_task:
                continue
            values = list(by_task.values())
            row: Aggregate = {"method": method, "iqm": interval_of(aggregate(values)), "tasks": len(values)}
            if method != self.methods[0]:
                first = [scores[self.methods[0]][task] for task in by_task]
                row["beaten"] = interval_of(improvement(first, values))
            found.append(row)
        return found

    def executed_sentence(self) -> str:
        """In a sentence: whether any forbidden action was executed."""
        executed, empty = (_total(self.records, name) for name in ("executed", "empty"))
        if executed is None or empty is None:
            return "Forbidden actions are projected; some of these runs did not count those that could not be."
        if not empty:
            return "Forbidden actions are projected: none was executed."
        return f"At {empty:,} steps no action was allowed, and {executed:,} forbidden ones were executed instead."

    def runs(self) -> list[RunsRow]:
        """What was run: per task and method, budget, seeds, versions and the command of the first seed.

        Also the steps without an allowed action, and with a forbidden one executed, in training and final episodes.
        """
        found: list[RunsRow] = []
        for task in self.tasks:
            for method in self.methods:
                some = self.group(task, method)
                if not some:
                    continue
                about = some[0].about
                versions = [f"{name} {about[name]}" for name in ("cvflows", "jax", "mujoco", "python") if name in about]
                found.append(
                    {
                        "task": task,
                        "method": method,
                        "steps": sorted({record.config.steps for record in some}),
                        "seeds": [record.config.seed for record in some],
                        "complete": sum(record.final is not None for record in some),
                        "command": _command(some[0]),
                        "versions": ", ".join(versions),
                        "seconds": sum(record.seconds for record in some),
                        "empty": _total(some, "empty"),
                        "executed": _total(some, "executed"),
                    }
                )
        return found


def _total(records: list[Record], name: str) -> int | None:
    """Over runs; None where one of them did not record it."""
    counts = [record.count(name) for record in records]
    return None if None in counts else sum(count for count in counts if count is not None)


def _ours_first(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: ("CVFlow" not in name, name != "SAC+CVFlow", name))


def _command(record: Record) -> str:
    try:
        return as_command(record.config, find_task(record.config.task).family)
    except UnknownNameError:
        return "a task of your own"


def _value(record: Record, name: str) -> float:
    match name:
        case "return":
            return record.last_return
        case "forbidden":
            return record.forbidden
        case "magnitude":
            return record.magnitude
        case "speed":
            return record.speed
        case "training":
            return record.violations("training")
        case "final":
            return record.violations("final")
    raise UnknownNameError("table", name, ("return", "training", "final", "forbidden", "magnitude", "speed"))


def _line(record: Record, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    if name == "return":
        steps, returns = (record.evaluations.get(key, np.zeros(0)) for key in ("step", "return"))
        if record.final is not None and (not len(steps) or steps[-1] < record.step):
            steps, returns = np.append(steps, record.step), np.append(returns, record.last_return)
        return steps, returns
    return record.forbidden_so_far() if record.episodes else None


def _curve(task: str, method: str, lines: list[tuple[np.ndarray, np.ndarray]]) -> Curve:
    """The runs of all seeds at common steps, up to the last step of the shortest."""
    end = min(steps[-1] for steps, _ in lines)
    longest = max(len(steps) for steps, _ in lines)
    first = max(steps[0] for steps, _ in lines)
    if end <= first:
        steps = np.array([end])
    elif longest <= POINTS:
        steps = lines[0][0][(lines[0][0] <= end) & (lines[0][0] >= first)]
    else:
        steps = np.linspace(first, end, POINTS)
    values = np.array([np.interp(steps, *line) for line in lines])
    middle, low, high = curve(values)
    step, value, bottom, top = (np.round(column, 4).tolist() for column in (steps, middle, low, high))
    return Curve(task, method, step, value, bottom, top, len(lines))


def interval_of(estimate: Estimate) -> Interval:
    """An estimate as JSON."""
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}
