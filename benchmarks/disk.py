"""A disk that fails where a test says: it stands in for `cvflows.files.perform`, which every change to the disk passes.

The model behind power cuts: a file's bytes are safe once it was synced, its name once its folder was; anything else may
be there or not.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

Fault = Literal["before", "torn", "after", "full", "power"]
FAULTS: tuple[Fault, ...] = ("before", "torn", "after", "full", "power")
Picture = dict[str, bytes]
"""The files of a folder by name."""


class KilledError(BaseException):
    """The process ends here; nothing it does afterwards reaches the disk."""


class FaultyDisk:
    """Counts the changes to the disk, and fails at one of them.

    `fault` at the change of number `at`: killed `before` or `after` it, in the middle of a write (`torn`), the disk is
    `full` (the process sees an error and may go on), or the `power` fails after it. At None, nothing fails.
    """

    def __init__(self, at: int | None = None, fault: Fault = "before", seed: int = 0) -> None:
        self.at, self.fault, self.rng = at, fault, np.random.default_rng(seed)
        self.calls: list[tuple[str, Path]] = []
        self.dead = False
        self._synced: dict[Path, bytes | None] = {}  # as it is named now: bytes that are safe; None: no such file
        self._named: dict[Path, bytes | None] = {}  # what a safe name held, where the name has changed since

    @contextmanager
    def installed(self) -> Iterator[FaultyDisk]:
        """While this lasts, cvflows writes to this disk."""
        from cvflows import files

        real = files.perform
        files.perform = self.perform
        try:
            yield self
        finally:
            files.perform = real

    def perform(self, operation: str, path: Path, action: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What `cvflows.files.perform` does, or the fault."""
        if self.dead:
            raise KilledError
        number = len(self.calls)
        self.calls.append((operation, path))
        if number != self.at:
            self._note(operation, path, args)
            result = action(*args, **kwargs)
            self._noted(operation, path)
            return result
        if self.fault == "full":
            if operation == "write":
                self._note(operation, path, args)
                action(args[0], args[1][: len(args[1]) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.dead = True
        if self.fault == "torn" and operation == "write":
            action(args[0], args[1][: int(self.rng.integers(len(args[1]) + 1))])
        elif self.fault in ("after", "power"):
            self._note(operation, path, args)
            result = action(*args, **kwargs)
            self._noted(operation, path)
            if operation == "open":
                os.close(result)
        if self.fault == "power":
            self._cut_power()
        raise KilledError

    def _note(self, operation: str, path: Path, args: tuple[Any, ...]) -> None:
        """Remember what may be lost, before it changes."""
        if operation in ("open", "write", "truncate"):
            if path not in self._synced:
                self._synced[path] = path.read_bytes() if path.exists() else None
            if operation == "open" and not path.exists():
                self._named.setdefault(path, None)
                self._synced[path] = b""
        elif operation == "replace":
            source = Path(args[0])
            old = self._synced.get(path, path.read_bytes() if path.exists() else None)
            self._named.setdefault(path, old)
            self._synced[path] = self._synced.pop(source, source.read_bytes())
            self._named.pop(source, None)
        elif operation == "remove" and path.exists():
            self._named.setdefault(path, self._synced.pop(path, path.read_bytes()))

    def _noted(self, operation: str, path: Path) -> None:
        if operation != "sync":
            return
        if path.is_dir():
            for name in [name for name in self._named if name.parent == path]:
                del self._named[name]
        else:
            self._synced[path] = path.read_bytes()

    def _cut_power(self) -> None:
        """Each unsafe byte and name is lost or not, by chance."""
        for path, content in self._losses({path for path in self._synced if path.is_file()}):
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)

    def _losses(self, there: set[Path]) -> Iterator[tuple[Path, bytes | None]]:
        """What a power cut makes of files, given those that are there: their bytes, or None for no such file."""
        for path, content in self._synced.items():
            if content is not None and path in there and self.rng.random() < 0.5:
                yield path, content
        for path, content in self._named.items():
            if self.rng.random() >= 0.5:
                yield path, content


class Camera(FaultyDisk):
    """A disk that never fails, and pictures what each kill or power cut would have left of one folder.

    `pictures[fault][at]` is the folder as `FaultyDisk(at, fault, seed=at)` leaves it, without running once for each.
    A process that a full disk tells of an error goes on: that is no picture of a moment.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.pictures: dict[Fault, list[Picture]] = {fault: [] for fault in FAULTS if fault != "full"}

    def perform(self, operation: str, path: Path, action: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What `cvflows.files.perform` does, between two pictures."""
        self.rng = np.random.default_rng(len(self.calls))
        self.calls.append((operation, path))
        before = self._picture()
        self._note(operation, path, args)
        if operation == "write":
            descriptor, content = args
            first = int(self.rng.integers(len(content) + 1))
            action(descriptor, content[:first])
            torn = self._picture()
            result = action(descriptor, content[first:])
        else:
            torn, result = before, action(*args, **kwargs)
        self._noted(operation, path)
        after = self._picture()
        self.rng = np.random.default_rng(len(self.calls) - 1)
        cut = dict(after)
        for lost, kept in self._losses({self.folder / name for name in after}):
            cut.pop(lost.name, None)
            cut |= {} if kept is None else {lost.name: kept}
        taken: dict[Fault, Picture] = {"before": before, "torn": torn, "after": after, "power": cut}
        for fault, picture in taken.items():
            self.pictures[fault].append(picture)
        return result

    def _picture(self) -> Picture:
        return {path.name: path.read_bytes() for path in self.folder.glob("*") if path.is_file()}
