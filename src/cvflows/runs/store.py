"""Run folders: what a run is, what it measured, and all it takes to go on after a crash.

| file | holds |
|---|---|
| `config.json`, `about.json` | the `RunConfig` and its fingerprint; versions and the machine |
| `constraint.json`, `map/` | the constraint, if it was learned, and the map, where the method has one |
| `metrics.csv`, `evaluations.csv`, `losses.csv` | a line per episode, per evaluation, per thousand steps |
| `timing.csv` | steps and seconds: the one file that differs between two runs of one config |
| `checkpoint.json` | where the run stands, and which `state-*.safetensors` belongs to it |
| `replay.bin`, `rejected.bin` | stored transitions, appended; the checkpoint says how many count |
| `final.json` | the last evaluation, when the run is complete |

A checkpoint is written to new files, then `checkpoint.json` is replaced in one step: at any moment it names a whole
one. Lines written after it are cut off on resuming, and written again.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from cvflows.agents.replay import Replay
from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.spec import describe, rebuild
from cvflows.errors import ArgumentError, StoreError
from cvflows.maps.store import filled, named_arrays, write_atomically
from cvflows.runs.config import RunConfig, fingerprint

FORMAT, VERSION = "cvflows run", 1
TABLES = ("metrics.csv", "evaluations.csv", "losses.csv")


def surroundings() -> dict[str, Any]:
    """Versions and the machine, which a config does not say."""
    versions = {name: version(name) for name in ("cvflows", "jax", "gymnasium", "mujoco")}
    where = {"python": platform.python_version(), "system": platform.system(), "cores": os.cpu_count()}
    return {**versions, **where}


def _locks(file: IO[str]) -> bool:
    """Whether the file could be locked, which lasts until it is closed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class RunFolder:
    """One run on disk."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._saved_rows: dict[str, int] = {}

    def create(self, config: RunConfig) -> None:
        """Write the config; a folder that holds another run is refused."""
        if (self.path / "config.json").exists():
            held = self.config()
            if held.fingerprint != config.fingerprint:
                raise ArgumentError("out", f"a new folder ({self.path} holds another run)", held.fingerprint)
        self._write("config.json", {"format": FORMAT, "version": VERSION, **config.as_json()})
        if not (self.path / "about.json").exists():
            self._write("about.json", surroundings())

    def config(self) -> RunConfig:
        """The config, checked against its fingerprint."""
        data = self._read("config.json")
        if data.pop("format", None) != FORMAT:
            raise StoreError(self.path / "config.json", "was not written by cvflows")
        if data.pop("version", 0) > VERSION:
            raise StoreError(self.path / "config.json", "is of a newer version: update cvflows")
        if fingerprint({name: value for name, value in data.items() if name != "fingerprint"}) != data.get(
            "fingerprint"
        ):
            raise StoreError(self.path / "config.json", "was changed after the run began: its fingerprint differs")
        try:
            return RunConfig.from_json(data)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(self.path / "config.json", f"does not describe a run ({error})") from None

    def keep_constraint(self, constraint: AbstractConstraint) -> None:
        """Write a learned constraint, where it can be described."""
        if (data := describe(constraint)) is not None:
            self._write("constraint.json", data)

    def constraint(self) -> AbstractConstraint | None:
        """The learned constraint, if there is one."""
        return rebuild(self._read("constraint.json")) if (self.path / "constraint.json").exists() else None

    def append(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add lines to a table, with a heading if they are the first."""
        rows = list(rows)
        if not rows:
            return
        path = self.path / table
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        if not path.exists() or not path.stat().st_size:
            writer.writeheader()
        writer.writerows(rows)
        try:
            with path.open("a") as file:
                file.write(text.getvalue())
        except OSError as error:
            raise StoreError(path, f"cannot be written ({error.strerror})") from None

    def table(self, name: str) -> list[dict[str, str]]:
        """The lines of a table."""
        path = self.path / name
        if not path.exists():
            return []
        with path.open() as file:
            return list(csv.DictReader(file))

    def save(self, state: Any, replays: Mapping[str, Replay], counts: Mapping[str, Any]) -> None:
        """A checkpoint: arrays, the new transitions, and the counts."""
        for table, replay in replays.items():
            self._append_replay(table, replay)
        name = f"state-{counts['step']}.safetensors"
        write_atomically(self.path / name, save_arrays(named_arrays(state)))
        sizes = {table: (self.path / table).stat().st_size for table in TABLES if (self.path / table).exists()}
        rows = {name: replay.added for name, replay in replays.items()}
        record = {"format": FORMAT, "version": VERSION, "state": name, "rows": rows, "tables": sizes}
        self._write("checkpoint.json", {**record, **counts})
        for old in self.path.glob("state-*.safetensors"):
            if old.name != name:
                old.unlink()

    @contextmanager
    def locked(self, patience: float = 0.0) -> Iterator[None]:
        """Keep other processes from training here; waits that many seconds for one that does. Ends with the process."""
        self._make()
        with (self.path / "lock").open("a") as file:
            until = time.monotonic() + patience
            while not _locks(file):
                if time.monotonic() > until:
                    raise StoreError(self.path, "is being trained by another process")
                time.sleep(0.2)
            yield

    def is_locked(self) -> bool:
        """Whether some process is training here now."""
        if not (self.path / "lock").exists():
            return False
        with (self.path / "lock").open("a") as file:
            return not _locks(file)

    def clear(self) -> None:
        """Remove lines that a run wrote before its first checkpoint."""
        for table in (*TABLES, "timing.csv"):
            (self.path / table).unlink(missing_ok=True)

    def has_checkpoint(self) -> bool:
        """Whether there is anything to go on from."""
        return (self.path / "checkpoint.json").exists()

    def load(self, state: Any, replays: Mapping[str, Replay], *, cut: bool) -> tuple[Any, dict[str, Any]]:
        """The saved state and counts; fills `replays`, and with `cut` removes what was written after the checkpoint."""
        record = self._read("checkpoint.json")
        path = self.path / record["state"]
        try:
            arrays = load_arrays(path.read_bytes())
        except (OSError, SafetensorError) as error:
            raise StoreError(path, f"cannot be read, is it truncated? ({error})") from None
        for name, replay in replays.items():
            self._load_replay(name, replay, record["rows"][name])
        for table in TABLES:
            path_of = self.path / table
            if cut and path_of.exists():
                os.truncate(path_of, record["tables"].get(table, 0))
        return filled(state, arrays, path), record

    def finish(self, figures: Mapping[str, Any]) -> None:
        """Write the last evaluation: the run is complete."""
        self._write("final.json", figures)

    def final(self) -> dict[str, Any] | None:
        """The last evaluation of a complete run."""
        return self._read("final.json") if (self.path / "final.json").exists() else None

    def _append_replay(self, name: str, replay: Replay) -> None:
        saved = self._saved_rows.get(name, 0)
        first = max(saved, replay.added - len(replay.rows))  # older ones were overwritten before
        places = np.arange(first, replay.added) % len(replay.rows)
        path, row = self.path / f"{name}.bin", replay.rows.shape[1] * 4
        try:
            with path.open("r+b" if path.exists() else "wb") as file:
                file.truncate(saved * row)
                file.seek(first * row)
                file.write(replay.rows[places].tobytes())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(path, f"cannot be written ({error.strerror})") from None
        self._saved_rows[name] = replay.added

    def _load_replay(self, name: str, replay: Replay, count: int) -> None:
        path, width = self.path / f"{name}.bin", replay.rows.shape[1]
        size = path.stat().st_size if path.exists() else 0
        if size < count * width * 4:
            raise StoreError(path, f"holds {size // (width * 4)} of {count} transitions, is it truncated?")
        stored = np.memmap(path, np.float32, "r", shape=(size // (width * 4), width)) if count else np.zeros((0, width))
        first = max(0, count - len(replay.rows))
        replay.rows[np.arange(first, count) % len(replay.rows)] = stored[first:count]
        replay.added = self._saved_rows[name] = count

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(self.path, f"cannot be made ({error.strerror})") from None

    def _write(self, name: str, data: Mapping[str, Any]) -> None:
        self._make()
        write_atomically(self.path / name, json.dumps(data, indent=1).encode())

    def _read(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            return json.loads(path.read_text())
        except OSError as error:
            raise StoreError(path, f"cannot be read ({error.strerror}): is this a run folder?") from None
        except ValueError as error:
            raise StoreError(path, f"is not JSON, is it truncated? ({error})") from None
