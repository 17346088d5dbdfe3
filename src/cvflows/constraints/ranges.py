"""Which states are safe, as costs c_i(s) ≤ 0 read off an observation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from cvflows.errors import ArgumentError

if TYPE_CHECKING:
    from jax import Array

    States = TypeVar("States", np.ndarray, Array)
else:  # loads without JAX
    States = TypeVar("States")

Range = tuple[int, float, float]
ROUNDING = 1e-6
"""Of a limit's size: what a state may be beyond it through rounding."""


@dataclass(frozen=True, init=False)
class Ranges:
    """low ≤ s[index] ≤ high for several entries: c = low - s[index], for all of them, then c = s[index] - high.

    `entries` holds (index, low, high), or is a mapping {index: (low, high)}; an infinite side has no cost.
    """

    entries: tuple[Range, ...]

    def __init__(self, entries: Mapping[int, tuple[float, float]] | Iterable[Range]) -> None:
        rows = [(i, *ends) for i, ends in entries.items()] if isinstance(entries, Mapping) else entries
        checked = tuple((int(index), float(low), float(high)) for index, low, high in rows)
        if not checked:
            raise ArgumentError("entries", "at least one (index, low, high)", checked)
        for index, low, high in checked:
            if index < 0 or not low < high:
                raise ArgumentError("entries", "(index ≥ 0, low, high) with low < high", (index, low, high))
        object.__setattr__(self, "entries", checked)

    def _sides(self) -> list[tuple[int, float, float]]:
        """(index, sign, bound) of every finite side: c = sign·s[index] - bound."""
        lower = [(index, -1.0, -low) for index, low, _ in self.entries]
        upper = [(index, 1.0, high) for index, _, high in self.entries]
        return [side for side in (*lower, *upper) if np.isfinite(side[2])]

    @property
    def count(self) -> int:
        """How many costs there are."""
        return len(self._sides())

    @property
    def names(self) -> tuple[str, ...]:
        """What each cost limits, as in "s0 ≥ 0.1", in the order of the costs."""
        words = (f"s{index} {'≤' if sign > 0 else '≥'} {sign * bound:g}" for index, sign, bound in self._sides())
        return tuple(words)

    @property
    def largest_index(self) -> int:
        """The last observation entry that is read."""
        return max(index for index, _, _ in self.entries)

    def faces(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(normals, bounds), shapes (count, size) and (count,), so that c(s) = normals·s - bounds."""
        sides = self._sides()
        return np.array([sign * np.eye(size)[index] for index, sign, _ in sides]), np.array([b for *_, b in sides])

    def __call__(self, s: States) -> States:
        """Costs of one state or a batch, shape (..., count); numpy in, numpy out, JAX in, JAX out."""
        indices, signs, bounds = (np.array(column) for column in zip(*self._sides(), strict=True))
        kind = getattr(s, "dtype", np.dtype(float))
        return s[..., indices] * signs.astype(kind) - bounds.astype(kind)

    def passed(self, s: np.ndarray) -> np.ndarray:
        """Which costs of a state are positive by more than rounding in float32, shape (..., count)."""
        return _passed(self(np.asarray(s, float)), np.array([bound for *_, bound in self._sides()]))

    def __str__(self) -> str:
        return ", ".join(f"{low:g} ≤ s{index} ≤ {high:g}" for index, low, high in self.entries)


@dataclass(frozen=True, init=False)
class Planes:
    """normals·s ≤ bounds: limits on weighted sums of observation entries, c = normals·s - bounds.

    `normals` has shape (count, entries of an observation), `bounds` (count,). `names` say what each limits.
    """

    normals: tuple[tuple[float, ...], ...]
    bounds: tuple[float, ...]
    names: tuple[str, ...]

    def __init__(self, normals: object, bounds: object, names: Iterable[str] | None = None) -> None:
        table, ends = np.asarray(normals, float), np.asarray(bounds, float)
        if table.ndim != 2 or not len(table) or not np.isfinite(table).all():
            raise ArgumentError("normals", "a table of finite numbers, a row for every limit", normals)
        if ends.shape != (len(table),) or not np.isfinite(ends).all():
            raise ArgumentError("bounds", f"{len(table)} finite numbers, one for every normal", bounds)
        if not table.any(axis=1).all():
            raise ArgumentError("normals", "an entry that is not 0 in every row", normals)
        called = tuple(names) if names is not None else tuple(map(_sum_name, table, ends))
        if len(called) != len(table):
            raise ArgumentError("names", f"{len(table)} of them, one for every normal", called)
        for name, value in (("normals", tuple(map(tuple, table.tolist()))), ("bounds", tuple(ends.tolist()))):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "names", called)

    @property
    def count(self) -> int:
        """How many costs there are."""
        return len(self.bounds)

    @property
    def largest_index(self) -> int:
        """The last observation entry that is read."""
        return int(np.flatnonzero(np.asarray(self.normals).any(axis=0)).max())

    def faces(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(normals, bounds), shapes (count, size) and (count,), so that c(s) = normals·s - bounds."""
        table = np.asarray(self.normals)
        return np.pad(table[:, :size], ((0, 0), (0, max(size - table.shape[1], 0)))), np.asarray(self.bounds)

    def __call__(self, s: States) -> States:
        """Costs of one state or a batch, shape (..., count); numpy in, numpy out, JAX in, JAX out."""
        kind = getattr(s, "dtype", np.dtype(float))
        normals, bounds = self.faces(s.shape[-1])
        lead = (1,) * (s.ndim - 1)  # JAX may refuse to add axes by itself
        terms = s[..., None, :] * normals.astype(kind).reshape(*lead, *normals.shape)
        return terms.sum(axis=-1) - bounds.astype(kind).reshape(*lead, -1)

    def passed(self, s: np.ndarray) -> np.ndarray:
        """Which costs of a state are positive by more than rounding in float32, shape (..., count)."""
        return _passed(self(np.asarray(s, float)), np.asarray(self.bounds))

    def __str__(self) -> str:
        return ", ".join(self.names)


Limits = Ranges | Planes
"""Which states are safe, as costs that are linear in an observation."""


def _passed(costs: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    return np.asarray(costs > ROUNDING * np.maximum(np.abs(bounds), 1.0))


def _sum_name(normal: np.ndarray, bound: float) -> str:
    """As in "s0 + s2 ≤ 0.1"."""
    terms = [
        f"{'-' if weight < 0 else '+'} {'' if abs(weight) == 1 else f'{abs(weight):g}·'}s{index}"
        for index, weight in enumerate(normal)
        if weight
    ]
    return f"{' '.join(terms).removeprefix('+ ')} ≤ {bound:g}"
