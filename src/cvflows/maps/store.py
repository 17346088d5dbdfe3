"""Maps on disk: `map.safetensors` holds the arrays, `map.json` everything else. No pickle, and writes are atomic."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypedDict, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.spec import describe, fingerprint, is_same, rebuild
from cvflows.errors import ArgumentError, StoreError, shown
from cvflows.files import (
    Format,
    as_path,
    make_folder,
    read_bytes,
    read_record,
    serialise,
    write_atomically,
    write_record,
)
from cvflows.maps.base import ActionMap
from cvflows.maps.kinds import describe_map, rebuild_map
from cvflows.maps.registry import MapRecord

FORMAT = Format("cvflows map", 2)
HEADER = 1 << 20
"""Bytes that a file of arrays may have beside them."""
MOST = 1 << 14
"""The largest whole number among the settings of a map."""
Tree = TypeVar("Tree")


class CheckRecord(TypedDict):
    """What a check during the fit saw."""

    step: int
    loss: float
    accuracy: float
    recall: float


class StoredMap(MapRecord, total=False):
    """`map.json`: the map's shape and constraint, the hash of its arrays, and what is known about it."""

    constraint: dict[str, object] | None
    fingerprint: list[float]
    arrays_sha256: str
    about: dict[str, object]
    checks: list[CheckRecord]


def save_map(map_: ActionMap, folder: str | Path, **about: object) -> Path:
    """Write a map into `folder`; `about` is kept as it is in `map.json`. Returns the folder."""
    folder = as_path("folder", folder)
    arrays = save_arrays(named_arrays(map_))
    if folder.is_symlink():
        raise StoreError(folder, "is a symbolic link, which is not followed")
    make_folder(folder)
    write_atomically(folder / "map.safetensors", arrays)
    write_record(folder / "map.json", FORMAT, {**_description(map_, arrays), **about})
    return folder


def map_digest(map_: ActionMap) -> str:
    """SHA-256 of everything that makes a map, the same before and after a trip to the disk."""
    return hashlib.sha256(serialise(_description(map_, save_arrays(named_arrays(map_))))).hexdigest()


def _description(map_: ActionMap, arrays: bytes) -> dict[str, object]:
    return {
        **describe_map(map_),
        "constraint": describe(map_.constraint),
        "fingerprint": fingerprint(map_.constraint),
        "arrays_sha256": hashlib.sha256(arrays).hexdigest(),
    }


def load_map(folder: str | Path, constraint: AbstractConstraint | None = None) -> ActionMap:
    """Read a map. `constraint` is needed when a function of yours is part of the set; it must be the same set."""
    folder = as_path("folder", folder)
    record = read_map_record(folder)
    constraint = _constraint(folder, record, constraint)
    try:
        _check_sizes([record["settings"], *record.get("parts", [])])
        skeleton = rebuild_map(record, constraint)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoreError(folder / "map.json", f"does not describe a map ({error})") from None
    path = folder / "map.safetensors"
    content = read_bytes(path, sum(array.nbytes for array in named_arrays(skeleton).values()) + HEADER)
    if hashlib.sha256(content).hexdigest() != record.get("arrays_sha256"):
        raise StoreError(path, "is not the file that `map.json` was written with, is it truncated?")
    try:
        arrays = load_arrays(content)
    except SafetensorError as error:
        raise StoreError(path, f"cannot be read ({error})") from None
    return filled(skeleton, arrays, path)


def read_map_record(folder: Path) -> StoredMap:
    """The contents of `map.json`, checked for format, version and damage."""
    return cast(StoredMap, read_record(folder / "map.json", FORMAT))


def _check_sizes(settings: dict[str, object] | list[object]) -> None:
    """Refuse settings that would take gigabytes, before any memory is taken."""
    for value in settings.values() if isinstance(settings, dict) else settings:
        if isinstance(value, (dict, list)):
            _check_sizes(value)
        elif isinstance(value, int) and abs(value) > MOST:
            raise ValueError(f"{shown(value)} is more than {MOST}")


def _constraint(folder: Path, record: StoredMap, given: AbstractConstraint | None) -> AbstractConstraint:
    saved = record.get("constraint")
    if given is None:
        if saved is None:
            expected = f"the set that the map in {folder} was made for, which contains a function"
            raise ArgumentError("constraint", expected, None)
        try:
            given = rebuild(saved)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StoreError(folder / "map.json", f"does not describe a constraint ({error})") from None
    constraint = given
    if not is_same(constraint, record.get("fingerprint", [])):
        raise ArgumentError("constraint", f"the set that the map in {folder} was made for", constraint)
    return constraint


def named_arrays(tree: object) -> dict[str, np.ndarray]:
    """The arrays of a pytree by their paths."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def filled(skeleton: Tree, arrays: dict[str, np.ndarray], path: Path) -> Tree:
    """A pytree like `skeleton` with the arrays that `named_arrays` gave, read from `path`."""
    wanted = named_arrays(skeleton)
    if {name: array.shape for name, array in wanted.items()} != {name: array.shape for name, array in arrays.items()}:
        raise StoreError(path, "holds other arrays than were expected")
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise StoreError(path, "holds NaN or infinity")
    dynamic, static = eqx.partition(skeleton, eqx.is_array)
    leaves, tree = jax.tree_util.tree_flatten_with_path(dynamic)
    found = [jnp.asarray(arrays[jax.tree_util.keystr(where)]) for where, _ in leaves]
    return eqx.combine(jax.tree_util.tree_unflatten(tree, found), static)
