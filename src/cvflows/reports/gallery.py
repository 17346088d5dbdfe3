"""Maps of a report: one per task, with its figures and a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from cvflows.errors import what
from cvflows.maps.fit import Check
from cvflows.maps.quality import measure
from cvflows.maps.store import load_map, read_map_record
from cvflows.reports.map_figure import draw_map
from cvflows.reports.records import Record
from cvflows.reports.tables import Tables
from cvflows.runs.config import method_of
from cvflows.runs.grid import SHARED, map_folder
from cvflows.tasks.catalogue import task as find_task


class MapFigures(TypedDict):
    """The map of a task, and a picture of its density."""

    task: str
    map: str
    accuracy: float
    recall: float
    kl: float
    calm: NotRequired[float | None]
    picture: str


def map_pictures(
    tables: Tables, folder: Path, tick: Callable[[int], None] | None = None
) -> tuple[list[MapFigures], list[str]]:
    """For every task, the map of its first method that has one; and notes on those that cannot be shown."""
    found, notes = [], []
    for count, task in enumerate(tables.tasks):
        record = next((one for one in tables.records if one.config.task == task and _folder(one)), None)
        if record is not None:
            try:
                found.append(_shown(record, folder / f"map-{task}.png"))
            except Exception as error:  # one bad map does not end a report
                notes.append(f"the map of {task} cannot be shown ({what(error)})")
        if tick is not None:
            tick(count + 1)
    return found, notes


def _folder(record: Record) -> Path | None:
    """The shared map of a suite, which knows its figures, or the run's own."""
    chosen = method_of(record.config)
    if not chosen.needs_map:
        return None
    own, above = record.folder / "map", record.folder.resolve().parents
    shared = [map_folder(above[2] / SHARED / record.config.task, chosen)] if len(above) > 2 else []
    return next((place for place in (*shared, own) if (place / "map.json").exists()), None)


def _shown(record: Record, picture: Path) -> MapFigures:
    place = _folder(record)
    assert place is not None
    task, stored = find_task(record.config.task), read_map_record(place)
    map_ = load_map(place)
    if task.limits is not None:
        task = task.with_constraint(map_.constraint, None)
    about = stored.get("about") or {"map": stored["map"], **asdict(measure(map_, task.contexts))}
    checks = [Check(**check) for check in stored.get("checks", [])]
    picture.parent.mkdir(parents=True, exist_ok=True)
    draw_map(map_, task, checks, picture)
    return cast(MapFigures, {**about, "task": task.name, "picture": str(picture)})
