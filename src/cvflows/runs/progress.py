"""The progress of runs, read from their folders while other processes write to them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path

from cvflows.errors import what
from cvflows.figures import State, Status, seconds_left
from cvflows.files import open_plain
from cvflows.runs.folder import RunFolder

TAIL = 4096
SIGNS = {"config.json", "checkpoint.json"}
"""A folder with one of these holds a run."""
RECENT = 20
"""Episodes that the return and the violations of a running run are averaged over."""


def find_runs(paths: Iterable[str | Path]) -> list[Path]:
    """The run folders at or below some paths, in order, also those with a file missing."""
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        for place, below, files in os.walk(path):
            if SIGNS & {*files, *below}:
                found[Path(place)] = None
                below.clear()
            below.sort()
    return list(found)


def read_status(folder: Path) -> Status:
    """The status of a run; of a folder that cannot be read, why."""
    try:
        return _status(folder)
    except Exception as error:  # one bad run does not end a view of many
        return Status(folder, "?", "?", 0, "unreadable", 0, 0, problem=what(error))


def _status(folder: Path) -> Status:
    run = RunFolder(folder)
    config, final = run.config(), run.final()
    named = folder, config.task, config.method, config.seed
    if final is not None:
        last, cv = float(final["final"]["return"]), float(final["training"]["cv_percent"])
        return Status(*named, "complete", config.steps, config.steps, last, cv, speed=_speed(folder))
    memory = 0
    if run.is_locked():
        memory = run.lock.memory()
        state: State = "running"
        episodes = _last_lines(folder / "metrics.csv")[-RECENT:]
    else:
        state = "cut off"
        episodes = run.table("metrics.csv")[-RECENT:]
    if not episodes:
        return Status(*named, state, 0, config.steps, memory=memory)
    length = sum(int(row["length"]) for row in episodes)
    value = sum(float(row["reward"]) for row in episodes) / len(episodes)
    cv = 100 * sum(int(row["violations"]) for row in episodes) / max(length, 1)
    step = int(episodes[-1]["step"])
    return Status(*named, state, step, config.steps, value, cv, speed=_speed(folder), memory=memory)


def _speed(folder: Path) -> float:
    """Steps per second between the last two checkpoints."""
    rows = _last_lines(folder / "timing.csv")
    if not rows or float(rows[-1]["seconds"]) <= 0:
        return math.nan
    return (int(rows[-1]["step"]) - int(rows[-1]["from"])) / float(rows[-1]["seconds"])


def _last_lines(path: Path) -> list[dict[str, str]]:
    """The last lines of a table that is growing: whole ones only."""
    try:
        with open(open_plain(path), "rb") as file:
            names = file.readline(TAIL).decode(errors="replace").strip().split(",")
            start = file.tell()
            file.seek(0, 2)
            end = file.tell()
            file.seek(max(start, end - TAIL))
            text = file.read(TAIL).decode(errors="replace")
    except OSError:
        return []
    lines = text.split("\n")[1 if end - TAIL > start else 0 : -1]
    return [dict(zip(names, line.split(","), strict=True)) for line in lines if line.count(",") == len(names) - 1]


def summary(statuses: Iterable[Status]) -> dict[str, int]:
    """How many runs are in which state."""
    counts: dict[str, int] = {}
    for status in statuses:
        counts[status.state] = counts.get(status.state, 0) + 1
    return counts


def dump(statuses: Iterable[Status]) -> str:
    """All of it as JSON."""
    some = list(statuses)
    whole = {"states": summary(some), "seconds_left": seconds_left(some)}
    return json.dumps({"runs": [status.as_json() for status in some], **whole}, ensure_ascii=False)
