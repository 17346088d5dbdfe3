"""One writer per run folder: a lock that is released when its process ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from cvflows.errors import StoreError
from cvflows.files import make_folder, open_plain, reason

SHORTEST = 0.5
"""Least seconds to keep trying: another process may hold the lock only to check whether the folder is locked."""


class FolderLock:
    """The file `lock` in a folder, locked from `acquire` to `release`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "lock"
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def acquire(self, patience: float = 0.0) -> None:
        """Lock the folder, made if missing; an error if another process still holds it after `patience` seconds."""
        if self.held:
            return
        make_folder(self.folder)
        until = time.monotonic() + max(patience, SHORTEST)
        while True:
            try:
                descriptor = open_plain(self.path, os.O_RDWR | os.O_CREAT)
            except OSError as error:
                raise StoreError(self.path, f"cannot be locked ({reason(error)})") from None
            if _locks(descriptor) and _is_at(descriptor, self.path):
                self._descriptor = descriptor
                return
            os.close(descriptor)
            if time.monotonic() > until:
                raise StoreError(self.folder, "is being trained by another process")
            time.sleep(0.05)

    def release(self) -> None:
        """Let others write."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def is_taken(self) -> bool:
        """Whether some process is training here now; changes nothing."""
        if self.held:
            return True
        try:
            descriptor = open_plain(self.path)
        except OSError:
            return False
        try:
            return not _locks(descriptor)
        finally:
            os.close(descriptor)

    def memory(self) -> int:
        """Bytes of memory of the process that holds the lock; 0 where it cannot be known."""
        try:
            place = os.stat(self.path).st_ino
            locks = Path("/proc/locks").read_text().splitlines()
            holders = [line.split()[4] for line in locks if "FLOCK" in line and f":{place} " in line]
            return os.sysconf("SC_PAGE_SIZE") * int(Path(f"/proc/{holders[0]}/statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):  # another machine's, another system, or just ended
            return 0

    def __del__(self) -> None:
        self.release()


def _locks(descriptor: int) -> bool:
    """Whether the file could be locked, which lasts until it is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one of that name: a lock on a deleted file locks nothing."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except OSError:
        return False
