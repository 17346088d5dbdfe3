"""Mirrors: run folders copied to an object store at their checkpoints, and fetched by whoever goes on.

For machines that share no folder, or that may vanish. What a checkpoint names is copied before `checkpoint.json`, so at
any moment the copy holds a whole one, as the folder itself does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cvflows.errors import ArgumentError, StoreError

LAST = ("checkpoint.json", "final.json")
"""Copied after everything else, in this order."""
HEAVY = (".bin", ".safetensors")


class Mirror:
    """A place in an object store, `s3://bucket/path` or any other address that fsspec knows."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise ArgumentError("mirror", "fsspec, with `pip install 'cvflows[ray]'`", "none") from None
        try:
            self._store, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise ArgumentError("mirror", f"the address of an object store ({error})", url) from None
        self._sent: dict[Path, tuple[int, int]] = {}

    def push(self, folder: Path, place: str) -> None:
        """Copy what changed in `folder` to `place`."""
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "lock"]
        files.sort(key=lambda path: LAST.index(path.name) if path.name in LAST else -1)
        try:
            for path in files:
                mark = path.stat().st_size, path.stat().st_mtime_ns
                if self._sent.get(path) != mark:
                    target = self._address(place, path.relative_to(folder).as_posix())
                    self._store.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
                    self._store.put_file(str(path), target)
                    self._sent[path] = mark
            self._forget_old_states(folder, place)
        except OSError as error:
            raise StoreError(self._address(place), f"cannot be written ({error})") from None

    def pull(self, folder: Path, place: str, *, light: bool = False) -> None:
        """Fetch `place` into `folder`, unless that is ahead; `light`: only what reports read, nothing to go on from."""
        start = self._address(place)
        if not self._store.exists(start):
            return
        if not light and self._step(folder) >= self._remote_step(place) >= 0:
            return
        try:
            names = [name[len(start) :].lstrip("/") for name in self._store.find(start)]
            for name in sorted(names, key=lambda name: LAST.index(name) if name in LAST else -1):
                if not (light and (name.endswith(HEAVY) or name == "checkpoint.json")):
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    self._store.get_file(f"{start}/{name}", str(folder / name))
        except OSError as error:
            raise StoreError(start, f"cannot be read ({error})") from None

    def _address(self, *parts: str) -> str:
        return "/".join((self._root.rstrip("/"), *parts))

    def _step(self, folder: Path) -> int:
        path = folder / "checkpoint.json"
        return _step_of(path.read_bytes()) if path.exists() else -1

    def _remote_step(self, place: str) -> int:
        path = self._address(place, "checkpoint.json")
        return _step_of(self._store.cat_file(path)) if self._store.exists(path) else -1

    def _forget_old_states(self, folder: Path, place: str) -> None:
        kept = {path.name for path in folder.glob("state-*.safetensors")}
        for name in self._store.glob(self._address(place, "state-*.safetensors")):
            if name.rsplit("/", 1)[1] not in kept:
                self._store.rm_file(name)


def _step_of(data: bytes) -> int:
    try:
        record: dict[str, Any] = json.loads(data)
    except ValueError:
        return -1
    return int(record.get("step", -1))
