"""Run folders as records for a report, and notes on what it cannot show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from cvflows.errors import ArgumentError, UnknownNameError, what
from cvflows.figures import RunFigures
from cvflows.runs.config import RunConfig
from cvflows.runs.folder import RunFolder
from cvflows.runs.progress import find_runs
from cvflows.tasks.catalogue import task as find_task

Columns = dict[str, np.ndarray]
Part = Literal["training", "final"]


@dataclass(frozen=True)
class Record:
    """One run: its config, its tables by column, its last evaluation if it is complete."""

    folder: Path
    config: RunConfig
    evaluations: Columns
    episodes: Columns
    final: RunFigures | None
    seconds: float
    processor: float | None
    """Seconds of the processor; None for runs that did not count them."""
    about: Mapping[str, object]

    @property
    def key(self) -> tuple[str, str, int]:
        """Task, method and seed: there should be one run of each."""
        return self.config.task, self.config.method, self.config.seed

    @property
    def step(self) -> int:
        """Steps so far."""
        if self.final is not None:
            return int(self.final["steps"])
        return int(max([0, *self.episodes.get("step", [])[-1:], *self.evaluations.get("step", [])[-1:]]))

    @property
    def metric(self) -> str:
        """What violations are counted in: `actions`, or `episodes` where states are limited."""
        return metric_of(self.config.task)

    @property
    def last_return(self) -> float:
        """Of the final evaluation, or the last one there is."""
        if self.final is not None:
            return float(self.final["final"]["return"])
        returns = self.evaluations.get("return")
        return float(returns[-1]) if returns is not None and len(returns) else float("nan")

    def violations(self, part: Part) -> float:
        """Percent of actions, or of episodes, in `training` or the `final` evaluation."""
        name = "left_percent" if self.metric == "episodes" else "cv_percent"
        if self.final is not None:
            return float((self.final["final"] if part == "final" else self.final["training"])[name])
        if part == "final" or not self.episodes:
            return float("nan")
        return 100 * float(self.episodes["left"].mean()) if self.metric == "episodes" else self.forbidden

    @property
    def forbidden(self) -> float:
        """Percent of the actions asked for in training that were forbidden."""
        return float(self.forbidden_so_far()[1][-1]) if self.episodes else float("nan")

    def forbidden_so_far(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps, and the percentage of forbidden actions up to there."""
        done = self.episodes
        return done["step"], 100 * np.cumsum(done["violations"]) / np.maximum(np.cumsum(done["length"]), 1)

    def count(self, name: str) -> int | None:
        """Steps that were `empty`, without an allowed action, or `executed` a forbidden one; None if not recorded."""
        if name not in self.episodes:
            return None
        last = 0 if self.final is None else int(self.final["final"].get(f"{name}_count", 0))
        return int(self.episodes[name].sum()) + last

    @property
    def magnitude(self) -> float:
        """Mean violation per step of training."""
        if not self.episodes:
            return float("nan")
        return float(self.episodes["violation"].sum() / max(self.episodes["length"].sum(), 1))

    @property
    def speed(self) -> float:
        """Steps per second."""
        return self.step / self.seconds if self.seconds > 0 else float("nan")


@dataclass
class Loaded:
    """Records that can be shown, and notes on what was dropped or looks wrong."""

    records: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def names(self, kind: str) -> list[str]:
        """Tasks or methods, in the order of the catalogue, then as found."""
        return list(dict.fromkeys(getattr(record.config, kind) for record in self.records))


def metric_of(name: str) -> str:
    """`episodes` for tasks that limit states, else `actions`."""
    try:
        return find_task(name).metric
    except UnknownNameError:
        return "actions"


def load_runs(paths: Iterable[str | Path], tick: Callable[[int], None] | None = None) -> Loaded:
    """Every run at or below the paths; one per task, method and seed."""
    paths = list(paths)
    folders, loaded = find_runs(paths), Loaded()
    if not folders:
        raise ArgumentError("runs", "folders with runs in them", " ".join(map(str, paths)) or "none")
    kept: dict[tuple[str, str, int], Record] = {}
    for count, folder in enumerate(folders):
        try:
            record = _read(folder)
        except Exception as error:  # one bad run does not end a report
            loaded.notes.append(f"dropped: {folder} ({what(error)})")
            continue
        if not record.evaluations and not record.episodes:
            loaded.notes.append(f"dropped: {folder} (nothing was measured yet)")
            continue
        other = kept.setdefault(record.key, record)
        if other is not record:
            first, second = sorted((other, record), key=lambda one: (one.final is not None, one.step))
            kept[record.key] = second
            loaded.notes.append(f"dropped: {first.folder} (the same task, method and seed as {second.folder})")
        if tick is not None:
            tick(count + 1)
    if not kept:
        raise ArgumentError("runs", "at least one run that can be read", "; ".join(loaded.notes))
    loaded.records = sorted(kept.values(), key=lambda record: record.key[2])
    loaded.notes += _warnings(loaded.records)
    return loaded


def _warnings(records: list[Record]) -> list[str]:
    notes = []
    unfinished = [record for record in records if record.final is None]
    if unfinished:
        names = ", ".join(" ".join(map(str, record.key)) for record in unfinished[:5])
        more = f" and {len(unfinished) - 5} more" if len(unfinished) > 5 else ""
        notes.append(f"not complete: {names}{more}; shown up to their last step")
    versions = sorted({str(record.about.get("cvflows", "unknown")) for record in records})
    if len(versions) > 1:
        notes.append(f"runs of several versions of cvflows: {', '.join(versions)}")
    budgets: dict[tuple[str, str], set[int]] = {}
    for record in records:
        budgets.setdefault(record.key[:2], set()).add(record.config.steps)
    for (task, method), steps in budgets.items():
        if len(steps) > 1:
            budget = " and ".join(f"{count:,}" for count in sorted(steps))
            notes.append(f"{method} on {task} mixes budgets of {budget} steps")
    return notes


def _read(folder: Path) -> Record:
    run = RunFolder(folder)
    config, final, about = run.config(), run.final(), run.about()
    evaluations, episodes, timing = (
        parse_columns(run.text(name)) for name in ("evaluations.csv", "metrics.csv", "timing.csv")
    )
    seconds = float(timing["seconds"].sum()) if timing else 0.0
    processor = float(timing["processor"].sum()) if "processor" in timing else None
    record = Record(folder, config, evaluations, episodes, final, seconds, processor, about)
    parts: tuple[Part, ...] = ("training", "final")
    for part in parts:
        record.violations(part)  # a missing table or figure is found here, not in the middle of a report
    return record


def parse_columns(text: str) -> Columns:
    """A table of numbers by column; a last line that is only half written is dropped."""
    heading, _, body = text.partition("\n")
    names = heading.split(",")
    body = body[: body.rfind("\n") + 1]
    values = np.array(body.replace("\n", ",").split(",")[:-1], float).reshape(-1, len(names))
    return {name: values[:, index] for index, name in enumerate(names)} if len(values) else {}
