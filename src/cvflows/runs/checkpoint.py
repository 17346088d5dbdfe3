"""What a checkpoint says: how much of which file counts, with a SHA-256 of each, and the counts of the run."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cvflows.files as files
from cvflows.errors import StoreError, dimension
from cvflows.files import hash_prefix, plain_name, read_bytes, writable, write_all

MOST_TABLE = 1 << 31
"""Bytes of the largest table that is read."""


@dataclass(frozen=True)
class Mark:
    """The part of a file that counts: its plain name, the number of bytes from its start, their SHA-256."""

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
    """Where a run stands: steps, episodes started, the step losses were last looked at, what the experience counts,
    and the generator of random numbers.
    """

    step: int
    started: int
    looked: int
    experience: dict[str, int]
    rng: dict[str, Any]

    def __post_init__(self) -> None:
        for name in ("step", "started", "looked"):
            dimension(name, getattr(self, name), least=0)
        for name, value in self.experience.items():
            dimension(name, value, least=0)
        if not isinstance(self.rng, dict):
            raise TypeError("`rng` is not the state of a generator")


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

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    @classmethod
    def parse(cls, path: Path, data: Mapping[str, Any]) -> Checkpoint:
        """What `as_json` gave, read from `path`."""
        try:
            replays, tables = (
                {plain_name(name): Mark(**mark) for name, mark in data[key].items()} for key in ("replays", "tables")
            )
            return cls(
                data["fingerprint"],
                Counts(**data["counts"]),
                Mark(**data["state"]),
                replays,
                dict(data["added"]),
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

    What lies beyond `size` does not count, and is overwritten.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.path, self.size, self._running, self._synced = folder / name, 0, hashlib.sha256(), True

    def append(self, content: bytes) -> None:
        """Add bytes at the end of what counts."""
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
        """What counts now."""
        return Mark(self.path.name, self.size, self._running.hexdigest())

    def restore(self, mark: Mark) -> None:
        """Go on from a mark, if the file still begins as it says."""
        running = hash_prefix(self.path, mark.size)
        if running.hexdigest() != mark.sha256:
            raise StoreError(self.path, "was changed after it was written: its checksum differs")
        self.size, self._running, self._synced = mark.size, running, True

    def cut(self) -> None:
        """Remove what does not count."""
        with writable(self.path) as descriptor:
            if os.fstat(descriptor).st_size > self.size:
                files.perform("truncate", self.path, os.ftruncate, descriptor, self.size)
