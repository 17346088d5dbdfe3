"""Mirrors: run folders copied to an object store at their checkpoints, and fetched to resume them.

For machines that share no folder, or that may vanish. What a checkpoint names is copied before `checkpoint.json`, and
a file has its name only once it is whole, so at any moment the copy holds a whole checkpoint, as the folder does.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from cvflows.errors import ArgumentError, MissingExtraError, StoreError
from cvflows.files import MOST_JSON, make_folder, read_bytes

LAST = ("previous.json", "checkpoint.json", "final.json")
"""Copied after everything else, in this order."""
HEAVY = (".bin", ".safetensors")
WHOLE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "memory"}
"""Stores whose objects appear only when they are whole; elsewhere a file is renamed once it is."""


class Mirror:
    """A place in an object store, `s3://bucket/path` or any other address that fsspec knows."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise MissingExtraError("a mirror", "fsspec", "ray") from None
        try:
            self.store, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise ArgumentError("mirror", f"the address of an object store ({error})", url) from None
        self._sent: dict[Path, tuple[int, int]] = {}

    def push(self, folder: Path, place: str) -> None:
        """Copy what changed in `folder` to `place`."""
        files = [path for path in sorted(folder.rglob("*")) if _is_copied(path)]
        files.sort(key=lambda path: LAST.index(path.name) if path.name in LAST else -1)
        try:
            for path in files:
                mark = path.stat().st_size, path.stat().st_mtime_ns
                if self._sent.get(path) != mark:
                    target = self._address(place, path.relative_to(folder).as_posix())
                    self.store.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
                    self._put(path, target)
                    self._sent[path] = mark
            self._forget_old_states(folder, place)
        except OSError as error:
            raise StoreError(self._address(place), f"cannot be written ({error})") from None

    def pull(self, folder: Path, place: str, *, light: bool = False) -> None:
        """Fetch `place` into `folder`, unless that is ahead; `light`: without what only resuming needs."""
        start = self._address(place)
        if not self.store.exists(start):
            return
        if self._step(folder, light=light) >= self._remote_step(place) >= 0:
            return
        try:
            names = [self._relative(start, name) for name in self.store.find(start)]
            names = [name for name in names if not name.endswith(".partial")]
            for name in sorted(names, key=lambda name: LAST.index(name) if name in LAST else -1):
                if not (light and name.endswith(HEAVY)):
                    self._get(f"{start}/{name}", folder / name)
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(start, f"cannot be read ({error})") from None

    def _put(self, path: Path, target: str) -> None:
        protocol = self.store.protocol
        if WHOLE & {protocol} if isinstance(protocol, str) else WHOLE & set(protocol):
            self.store.put_file(str(path), target)
        else:
            self.store.put_file(str(path), f"{target}.partial")
            self.store.mv(f"{target}.partial", target)

    def _get(self, source: str, path: Path) -> None:
        make_folder(path.parent)
        if path.parent.is_symlink() or path.is_symlink():
            raise StoreError(path, "is or lies in a symbolic link, which is not followed")
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        self.store.get_file(source, str(partial))
        os.replace(partial, path)

    def _relative(self, start: str, name: str) -> str:
        """The name of an object relative to `start`; an error where it is not below it."""
        relative = name[len(start) :].lstrip("/")
        parts = relative.split("/")
        if not name.startswith(start) or {"", ".", ".."} & set(parts) or set(relative) & set("\\\0"):
            raise StoreError(name, f"is not a name of a file below {start}")
        return relative

    def _address(self, *parts: str) -> str:
        return "/".join((self._root.rstrip("/"), *parts))

    def _step(self, folder: Path, *, light: bool) -> int:
        """The step of a folder's checkpoint; -1 where there is none, or, unless `light`, where its state is missing."""
        try:
            data = read_bytes(folder / "checkpoint.json", MOST_JSON)
        except StoreError:
            return -1
        step = _step_of(data)
        return step if light or any(folder.glob(f"state-{step}-*.safetensors")) else -1

    def _remote_step(self, place: str) -> int:
        path = self._address(place, "checkpoint.json")
        if not self.store.exists(path) or self.store.size(path) > MOST_JSON:
            return -1
        return _step_of(self.store.cat_file(path))

    def _forget_old_states(self, folder: Path, place: str) -> None:
        for ending in ("safetensors", "bin"):
            kept = {path.name for path in folder.glob(f"*.{ending}")}
            for name in self.store.glob(self._address(place, f"*.{ending}")):
                if name.rsplit("/", 1)[1] not in kept:
                    self.store.rm_file(name)


def _is_copied(path: Path) -> bool:
    """Plain files, except those with a meaning on this machine only."""
    return path.is_file() and not path.is_symlink() and path.name != "lock" and path.suffix != ".partial"


def _step_of(data: bytes) -> int:
    try:
        return int(json.loads(data)["counts"]["step"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return -1
