"""Files that survive a crash, and records that notice damage.

Every change to the disk passes through `perform`: a test that replaces it can make any single one fail, or stop there.
Records are JSON objects with a format, a version and a SHA-256 of the rest; a file that differs in one byte from what
was written is refused. Symbolic links, folders and devices in the place of a file are refused too, never followed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

from cvflows.errors import ArgumentError, StoreError, quoted

P = ParamSpec("P")
T = TypeVar("T")
if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
else:
    Json = object  # recursive, so for the type checker only
MOST_JSON = 1 << 26
"""Bytes of the largest record that is read."""
CHUNK = 1 << 20


class Digest(Protocol):
    """A running hash, as hashlib makes them."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""

    def hexdigest(self) -> str:
        """The hash of all bytes so far."""


class Format(NamedTuple):
    """What a record says it is."""

    name: str
    version: int


def as_path(argument: str, value: object) -> Path:
    """`value` as a path, or an error that names the argument."""
    if not isinstance(value, (str, Path)) or "\0" in str(value):
        raise ArgumentError(argument, "a path", quoted(value))
    return Path(value)


def perform(operation: str, path: Path, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Change the disk: `action(*args)`. `operation` is open, write, truncate, sync, replace, remove or make."""
    return action(*args, **kwargs)


def reason(error: OSError) -> str:
    """Why the system refused: its own message, except for symbolic links."""
    return "a symbolic link is not followed" if error.errno == errno.ELOOP else error.strerror or str(error)


def open_plain(path: Path, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """A descriptor of a plain file; anything else at that path raises OSError at once, a link too unless `follow`."""
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags, 0o666)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a plain file")


@contextmanager
def writable(path: Path) -> Iterator[int]:
    """A descriptor for writing, of a new file where there is none; trouble is a `StoreError` that names the file."""
    try:
        descriptor = perform("open", path, open_plain, path, os.O_RDWR | os.O_CREAT)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(path, f"cannot be written ({reason(error)})") from None


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of it, also where the system writes only a part per call."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def write_atomically(path: Path, content: bytes) -> None:
    """The file is either the old one or the whole new one, never a part, even when the power fails."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with writable(partial) as descriptor:
            perform("truncate", partial, os.ftruncate, descriptor, 0)
            perform("write", partial, write_all, descriptor, content)
            perform("sync", partial, os.fsync, descriptor)
        perform("replace", path, os.replace, partial, path)
        sync_folder(path.parent)
    except OSError as error:
        if partial.exists():
            perform("remove", partial, partial.unlink, missing_ok=True)
        why = str(error).removeprefix(f"{partial} ") if isinstance(error, StoreError) else reason(error)
        raise StoreError(path, why if isinstance(error, StoreError) else f"cannot be written ({why})") from None


def sync_folder(path: Path) -> None:
    """Names that were made, replaced or removed in a folder reach the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        perform("sync", path, os.fsync, descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Delete a file, if it is there."""
    try:
        perform("remove", path, path.unlink, missing_ok=True)
    except OSError as error:
        raise StoreError(path, f"cannot be removed ({reason(error)})") from None


def make_folder(path: Path) -> None:
    """A folder and those above it."""
    if path.is_dir():
        return
    try:
        perform("make", path, path.mkdir, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(path, f"cannot be made ({reason(error)})") from None


def exists(path: Path) -> bool:
    """Whether anything has that name, a broken link included."""
    return os.path.lexists(path)


def read_bytes(path: Path, most: int, hint: str = "", *, follow: bool = False) -> bytes:
    """A plain file of at most that many bytes, measured before any memory is taken."""
    try:
        with open(open_plain(path, follow=follow), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise StoreError(path, f"has {size:,} bytes, at most {most:,} were expected")
            return file.read(most + 1)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(path, f"cannot be read ({reason(error)}){hint}") from None


def hash_prefix(path: Path, size: int) -> Digest:
    """The running SHA-256 of the first `size` bytes of a file that has them."""
    running, left = hashlib.sha256(), size
    try:
        with open(open_plain(path), "rb") as file:
            while left and (block := file.read(min(left, CHUNK))):
                running.update(block)
                left -= len(block)
    except OSError as error:
        raise StoreError(path, f"cannot be read ({reason(error)})") from None
    if left:
        raise StoreError(path, f"has {size - left:,} of {size:,} bytes, is it truncated?")
    return running


def serialise(record: Mapping[str, object]) -> bytes:
    """A record as bytes; there is one way only, so that checksums agree."""
    return json.dumps(record, indent=1).encode()


def write_record(path: Path, form: Format, data: Mapping[str, object]) -> None:
    """Write a record of that format, with its checksum."""
    record = {"format": form.name, "version": form.version, **data}
    write_atomically(path, serialise({**record, "sha256": hashlib.sha256(serialise(record)).hexdigest()}))


def read_record(path: Path, form: Format, hint: str = "") -> dict[str, Json]:
    """What `write_record` was given; a file that is foreign, of another version, or changed in any byte is refused."""
    content = read_bytes(path, MOST_JSON, hint)
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise StoreError(path, f"is not JSON, is it truncated? ({error})") from None
    if not isinstance(record, dict) or record.pop("format", None) != form.name:
        raise StoreError(path, "was not written by cvflows")
    found = record.pop("version", None)
    if type(found) is not int or found > form.version:
        raise StoreError(path, f"has format version {found}, this cvflows reads {form.version}: update cvflows")
    if found < form.version:
        raise StoreError(path, f"has format version {found}, this cvflows reads {form.version}: make it again")
    expected = record.pop("sha256", None)
    whole = {"format": form.name, "version": found, **record}
    if hashlib.sha256(serialise(whole)).hexdigest() != expected or serialise({**whole, "sha256": expected}) != content:
        raise StoreError(path, "was changed after it was written: its checksum differs")
    return record


def plain_name(name: object) -> str:
    """`name`, if it is that of a file in the same folder: no separators, no `..`; else ValueError."""
    if not isinstance(name, str) or not name or name.startswith(".") or set(name) & set("/\\\0"):
        raise ValueError(f"{name!r} is not a plain file name")
    return name
