"""Checkpoints: how many bytes of which file belong to it, with a SHA-256 of each, and the counts of the run."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict, cast

import cvflows.files as files
from cvflows.errors import StoreError, dimension
from cvflows.files import Digest, Json, hash_prefix, plain_name, read_bytes, writable, write_all

MOST_TABLE = 1 << 31
"""Bytes of the largest table that is read."""


class _MarkRecord(TypedDict):
    file: str
    size: int
    sha256: str


class _CountsRecord(TypedDict):
    step: int
    started: int
    looked: int
    experience: dict[str, int]
    rng: dict[str, object]


class _CheckpointRecord(TypedDict):
    """A `Checkpoint` as JSON."""

    fingerprint: str
    counts: _CountsRecord
    state: _MarkRecord
    replays: dict[str, _MarkRecord]
    added: dict[str, int]
    tables: dict[str, _MarkRecord]


@dataclass(frozen=True)
class Mark:
    """The part of a file that belongs to a checkpoint: its name, the number of bytes from its start, their SHA-256."""

    file: str
    size: int
    sha256: str

    def __post_init__(self) -> None:
        plain_name(self.file)
        dimension("size", self.size, least=0)
        if not isinstance(self.sha256, str) or not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"{self.sha256!r} is not a SHA-256")

    def read(self, folder: Path) -> bytes:
        """All bytes of the file, if its first `size` are those that were written."""
        content = read_bytes(folder / self.file, max(MOST_TABLE, self.size))
        if hashlib.sha256(content[: self.size]).hexdigest() != self.sha256:
            why = "is truncated" if len(content) < self.size else "was changed after it was written"
            raise StoreError(folder / self.file, f"{why}: its checksum differs")
        return content


@dataclass(frozen=True)
class Counts:
    """Progress of a run: steps, episodes started, the step at which losses were last read, counts of the experience,
    and the generator of random numbers.
    """

    step: int
    started: int
    looked: int
    experience: dict[str, int]
    rng: Mapping[str, object]

    def __post_init__(self) -> None:
        for name in ("step", "started", "looked"):
            dimension(name, getattr(self, name), least=0)
        if not isinstance(self.experience, Mapping) or not isinstance(self.rng, Mapping):
            raise TypeError("`experience` or `rng` is no table")
        for name, value in self.experience.items():
            dimension(name, value, least=0)


@dataclass(frozen=True)
class Checkpoint:
    """One whole checkpoint: `added` counts the transitions of each replay ever added."""

    fingerprint: str
    counts: Counts
    state: Mark
    replays: dict[str, Mark]
    added: dict[str, int]
    tables: dict[str, Mark]

    def __post_init__(self) -> None:
        for name, count in self.added.items():
            dimension(name, count, least=0)
        if self.added.keys() != self.replays.keys():
            raise ValueError("`added` and `replays` name different files")

    def as_json(self) -> dict[str, object]:
        """JSON-ready."""
        return asdict(self)

    @classmethod
    def parse(cls, path: Path, data: Mapping[str, Json]) -> Checkpoint:
        """From what `as_json` gave, read from `path`."""
        record = cast(_CheckpointRecord, data)
        try:
            replays, tables = (
                {plain_name(name): Mark(**mark) for name, mark in marks.items()}
                for marks in (record["replays"], record["tables"])
            )
            return cls(
                record["fingerprint"],
                Counts(**record["counts"]),
                Mark(**record["state"]),
                replays,
                dict(record["added"]),
                tables,
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StoreError(path, f"does not describe a checkpoint ({error})") from None

    @property
    def files(self) -> set[str]:
        """Every file that it names."""
        return {mark.file for mark in (self.state, *self.replays.values(), *self.tables.values())}


class Appended:
    """A file that only grows, with a running SHA-256, so that a checkpoint need not read it again.

    Bytes beyond `size` belong to no checkpoint, and are overwritten.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.path, self.size, self._synced = folder / name, 0, True
        self._running: Digest = hashlib.sha256()

    def append(self, content: bytes) -> None:
        """Add bytes after the first `size`."""
        self._synced = False
        with writable(self.path) as descriptor:
            if (found := os.fstat(descriptor).st_size) < self.size:
                raise StoreError(self.path, f"has {found:,} of {self.size:,} bytes: another program changed it")
            if found > self.size:
                files.perform("truncate", self.path, os.ftruncate, descriptor, self.size)
            os.lseek(descriptor, self.size, os.SEEK_SET)
            files.perform("write", self.path, write_all, descriptor, content)
        self._running.update(content)
        self.size += len(content)

    def sync(self) -> None:
        """What was added reaches the disk."""
        if self._synced:
            return
        with writable(self.path) as descriptor:
            if os.fstat(descriptor).st_size != self.size:
                raise StoreError(self.path, "was changed by another program")
            files.perform("sync", self.path, os.fsync, descriptor)
        self._synced = True

    def mark(self) -> Mark:
        """The present `size` and hash."""
        return Mark(self.path.name, self.size, self._running.hexdigest())

    def restore(self, mark: Mark) -> None:
        """Continue from a mark, if the file still begins as it says."""
        running = hash_prefix(self.path, mark.size)
        if running.hexdigest() != mark.sha256:
            raise StoreError(self.path, "was changed after it was written: its checksum differs")
        self.size, self._running, self._synced = mark.size, running, True

    def cut(self) -> None:
        """Remove what lies beyond `size`."""
        with writable(self.path) as descriptor:
            if os.fstat(descriptor).st_size > self.size:
                files.perform("truncate", self.path, os.ftruncate, descriptor, self.size)
