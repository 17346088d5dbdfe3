"""Run folders: the config of a run, its tables, and what is needed to resume it after a crash.

| file | holds |
|---|---|
| `config.json`, `about.json` | the `RunConfig` and its fingerprint; versions and the machine |
| `constraint.json`, `map/` | the constraint, if it was learned, and the map, where the method has one |
| `metrics.csv`, `evaluations.csv`, `losses.csv` | a line per episode, per evaluation, per thousand steps |
| `timing.csv` | steps, seconds and processor seconds between checkpoints: differs between two runs of one config |
| `checkpoint.json`, `previous.json` | the last two checkpoints: counts, and how many bytes of which file belong to it |
| `state-*.safetensors` | networks and optimisers of those two |
| `replay.bin`, `rejected.bin` | stored transitions, appended |
| `final.json` | the last evaluation, when the run is complete |
| `lock` | locked by the process that trains |

A process locks the folder before it writes. A checkpoint is written to new files, or appended to old ones, and is on
the disk before `checkpoint.json` is replaced in one step: at any moment that names a whole checkpoint. Checkpoints
hold a SHA-256 of every byte that counts, and JSON files one of themselves. Where the last checkpoint is damaged, the
one before it is used; lines written after it are cut off on resuming, and written again.

Folders of earlier formats (version 3 is read) are refused.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import secrets
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from cvflows.agents.experience import Table
from cvflows.errors import DamageWarning, StoreError
from cvflows.figures import RunFigures
from cvflows.files import (
    exists,
    read_bytes,
    remove,
    write_atomically,
)
from cvflows.maps.store import filled, named_arrays
from cvflows.runs.checkpoint import MOST_TABLE, Appended, Checkpoint, Counts, Mark
from cvflows.runs.identity import Identity
from cvflows.runs.lock import FolderLock

TABLES = ("metrics.csv", "evaluations.csv", "losses.csv", "timing.csv")
CHECKPOINTS = ("checkpoint.json", "previous.json")
HEADER = 1 << 20
"""Most bytes of a file of arrays besides the arrays."""
OURS = re.compile(r"state-.*\.safetensors|(replay|rejected)(-.*)?\.bin|(metrics|evaluations|losses|timing)(-.*)?\.csv")
"""Files that belong to checkpoints."""


StateT = TypeVar("StateT")
"""The state of a learner: a pytree of arrays."""


def csv_lines(rows: Iterable[Mapping[str, object]], *, heading: bool) -> str:
    """Rows as lines of a table."""
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    if heading and rows:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def parse_csv(text: str) -> list[dict[str, str]]:
    """The rows of a table."""
    return list(csv.DictReader(io.StringIO(text)))


class RunFolder(Identity):
    """One run on disk."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.lock = FolderLock(self.path)
        self.current: Checkpoint | None = None
        self._appended: dict[str, Appended] = {}
        self._added: dict[str, int] = {}

    @contextmanager
    def opening(self, patience: float = 0.0) -> Iterator[None]:
        """Lock the folder for writing; it stays locked unless the body raises."""
        self.lock.acquire(patience)
        try:
            yield
        except BaseException:
            self.lock.release()
            raise

    def is_locked(self) -> bool:
        """Whether some process is training here now."""
        return self.lock.is_taken()

    def append(self, table: str, lines: str) -> None:
        """Add lines to a table."""
        assert self.lock.held
        if lines:
            self._file(table).append(lines.encode())

    def text(self, table: str, *, tail: bool = True) -> str:
        """The whole lines of a table that count, verified; with `tail`, those that a running process wrote since."""
        tail = tail and self.is_locked()
        newest = self.newest()
        mark = None if newest is None else newest.tables.get(table)
        if mark is not None:
            content = mark.read(self.path)
        elif tail and exists(self.path / table):
            content = read_bytes(self.path / table, MOST_TABLE)
        else:
            return ""
        if mark is not None and not tail:
            content = content[: mark.size]
        return content[: content.rfind(b"\n") + 1].decode(errors="replace")

    def table(self, name: str) -> list[dict[str, str]]:
        """The lines of a table."""
        return parse_csv(self.text(name))

    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        return any(exists(self.path / name) for name in CHECKPOINTS)

    def newest(self) -> Checkpoint | None:
        """What this process saved or loaded, else the last checkpoint as it is described; its files are not read."""
        if self.current is not None:
            return self.current
        return self._checkpoint(CHECKPOINTS[0]) if self.has_checkpoint() else None

    def clear(self) -> None:
        """Remove what a run wrote before its first checkpoint."""
        assert self.lock.held
        assert not self.has_checkpoint()
        if exists(self.path / "final.json"):
            raise StoreError(self.path / CHECKPOINTS[0], "is missing, though the run was complete")
        self._tidy(set())

    def save(self, state: object, replays: Mapping[str, Table], counts: Counts) -> None:
        """A checkpoint: arrays, the transitions that came since the last one, and the counts."""
        assert self.lock.held
        for name, replay in replays.items():
            self._file(f"{name}.bin").append(replay.last(replay.added - self._added.get(name, 0)).tobytes())
            self._added[name] = replay.added
        self._commit(state, counts)

    def save_whole(
        self, state: object, replays: Mapping[str, Table], counts: Counts, tables: Mapping[str, str]
    ) -> None:
        """A checkpoint in new files: the folder holds the whole old one until it holds the whole new one."""
        assert self.lock.held
        try:
            self.current = self.newest()
        except StoreError:  # it is damaged, and replaced
            self.current = None
        contents = {f"{name}.bin": replay.last(replay.added).tobytes() for name, replay in replays.items()}
        contents |= {name: text.encode() for name, text in tables.items() if text}
        tag, self._appended = f"{counts.step}-{secrets.token_hex(4)}", {}
        for name, content in contents.items():
            stem, _, ending = name.partition(".")
            self._appended[name] = Appended(self.path, f"{stem}-{tag}.{ending}")
            self._appended[name].append(content)
        self._added = {name: replay.added for name, replay in replays.items()}
        self._commit(state, counts)

    def load(self, state: StateT, replays: Mapping[str, Table], *, cut: bool) -> StateT:
        """The saved state; fills `replays` and sets `current`; with `cut` removes what came after the checkpoint.

        Where the last checkpoint is damaged, it is the one before it, with a warning.
        """
        problems: list[str] = []
        for name in CHECKPOINTS:
            try:
                found = self._checkpoint(name)
                loaded = self._load(found, state, replays)
            except StoreError as error:
                problems.append(str(error))
                continue
            break
        else:
            raise StoreError(self.path, f"has no checkpoint that can be used: {'; '.join(problems)}")
        if problems:
            instead = f"the checkpoint before it is used, of step {found.counts.step:,}"
            warnings.warn(f"{problems[0]}; {instead}", DamageWarning, stacklevel=2)
        self.current = found
        if cut:
            assert self.lock.held
            for file in self._appended.values():
                file.cut()
        return loaded

    def finish(self, figures: Mapping[str, object]) -> None:
        """Write the last evaluation: the run is complete."""
        assert self.lock.held
        assert self.current is not None
        self._write("final.json", {**figures, "fingerprint": self.fingerprint, "state": self.current.state.sha256})

    def final(self) -> RunFigures | None:
        """The last evaluation of a complete run."""
        if not exists(self.path / "final.json"):
            return None
        figures = self._read("final.json")
        if figures.get("fingerprint") != self.fingerprint:
            raise StoreError(self.path / "final.json", "belongs to another run")
        if (newest := self.newest()) is None:
            raise StoreError(self.path / CHECKPOINTS[0], "is missing, though the run was complete")
        return cast(RunFigures, figures) if figures.pop("state", None) == newest.state.sha256 else None

    def _checkpoint(self, name: str) -> Checkpoint:
        found = Checkpoint.parse(self.path / name, self._read(name))
        if found.fingerprint != self.fingerprint:
            raise StoreError(self.path / name, "belongs to another run")
        return found

    def _load(self, found: Checkpoint, state: StateT, replays: Mapping[str, Table]) -> StateT:
        path, wanted = self.path / found.state.file, named_arrays(state)
        if found.replays.keys() != {f"{name}.bin" for name in replays}:
            raise StoreError(self.path, f"holds the transitions of another method ({', '.join(found.replays)})")
        content = read_bytes(path, sum(array.nbytes for array in wanted.values()) + HEADER)
        if (len(content), hashlib.sha256(content).hexdigest()) != (found.state.size, found.state.sha256):
            raise StoreError(path, "is truncated or was changed: its checksum differs")
        try:
            loaded = filled(state, load_arrays(content), path)
        except SafetensorError as error:
            raise StoreError(path, f"cannot be read ({error})") from None
        self._appended = {}
        for name, mark in {**found.replays, **found.tables}.items():
            self._appended[name] = Appended(self.path, mark.file)
            self._appended[name].restore(mark)
        for name, replay in replays.items():
            mark, added = found.replays[f"{name}.bin"], found.added[f"{name}.bin"]
            size = min(added, len(replay.rows)) * replay.rows.shape[1] * 4
            if mark.size < size or size % 4:
                raise StoreError(self.path / mark.file, f"holds fewer than {added:,} transitions")
            with (self.path / mark.file).open("rb") as file:
                file.seek(mark.size - size)
                rows = np.frombuffer(file.read(size), np.float32).reshape(-1, replay.rows.shape[1])
            replay.restore(rows, added)
            self._added[name] = added
        return loaded

    def _commit(self, state: object, counts: Counts) -> None:
        for file in self._appended.values():
            file.sync()
        content = save_arrays(named_arrays(state))
        digest = hashlib.sha256(content).hexdigest()
        mark = Mark(f"state-{counts.step}-{digest[:12]}.safetensors", len(content), digest)
        write_atomically(self.path / mark.file, content)
        marks = {name: file.mark() for name, file in self._appended.items()}
        tables = {name: marks.pop(name) for name in TABLES if name in marks}
        counted = {f"{name}.bin": count for name, count in self._added.items()}
        found = Checkpoint(self.fingerprint, counts, mark, marks, counted, tables)
        kept = set(found.files)
        if self.current is not None:
            self._write(CHECKPOINTS[1], self.current.as_json())
            kept |= self.current.files
        self._write(CHECKPOINTS[0], found.as_json())
        if self.current is None:
            remove(self.path / CHECKPOINTS[1])
        self.current = found
        self._tidy(kept)

    def _tidy(self, kept: set[str]) -> None:
        """Remove files of older checkpoints, and what a crash left half written."""
        for path in sorted(self.path.iterdir()):
            if path.name not in kept and (OURS.fullmatch(path.name) or path.name.endswith(".partial")):
                remove(path)

    def _file(self, name: str) -> Appended:
        return self._appended.setdefault(name, Appended(self.path, name))
