"""Shares of a total, each filled by its exact conditional distribution, so that the plain map is uniform already.

With v_i = a_i - low_i in [0, W_i], independent and uniform but for Σ v = t, the entry v_i given the earlier ones is
distributed as v | v + S = R, where S is the sum of the later entries, R what is left of t, and F the distribution
function of S:

    s = (F(R) - F(R - v)) / (F(R) - F(R - W_i))   in [0, 1]

log F is tabulated against log S, in which its tail is a straight line, once per entry, and interpolated linearly: s(v)
and its inverse are closed forms, and so are their slopes. F(z) = 1 - F(T - z) gives the upper half, T being the largest
sum. Where more than half of W_i + T is left, the shares that are kept back are looked at instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.shapes.base import Equality
from cvflows.maps.base import Context, Vector
from cvflows.maps.charts import Scalar, Slices
from cvflows.maps.inside import constant
from cvflows.maps.intervals import Index

NODES, OCTAVES = 256, 24
"""Entries of a table, and over how many powers of two below T/2 they are spread."""
FINE = 4096
FAINTEST = 2.0**-24
"""The least share of F(R) that is told from zero, about the rounding of s."""


def is_shared(constraint: AbstractConstraint) -> bool:
    """Whether the set is a total with bounds that are the same in every context."""
    x = jnp.zeros(constraint.context_dim)
    equality = constraint.shape(x).equality(constraint.action_dim)
    is_total = equality is not None and bool(jnp.all(equality.normal == 1))
    return is_total and constant(constraint.bounds, constraint.context_dim) is not None


class Tables(NamedTuple):
    """Of every entry: its width W, the largest sum T of the later ones, and log F at log-spaced shares of T."""

    width: np.ndarray
    rest: np.ndarray
    log_below: np.ndarray


class Left(NamedTuple):
    """What an entry has to choose from, or its mirror image: R, T, the ends of v, log F(R), 1 - F(R-W)/F(R), the table.

    `single`: nothing is left to later entries, so that this one is uniform in its interval.
    """

    mirrored: Array
    left: Scalar
    rest: Scalar
    first: Scalar
    last: Scalar
    log_below: Scalar
    chosen: Scalar
    table: Float[Array, " nodes"]
    single: Array


@dataclass(frozen=True)
class Shares(Slices):
    """The feasible interval of each entry of a total, with the uniform distribution's own density in it."""

    constraint: AbstractConstraint

    def bend(self, x: Context, y: Vector, index: Index, t: Scalar) -> tuple[Scalar, Scalar]:
        here = self._left(x, y, index)
        s = jnp.where(here.mirrored, 1 - t, 1 + t) / 2
        share = jnp.maximum(1 - s * here.chosen, FAINTEST)
        below, power = _quantile(here, here.log_below + jnp.log(share))
        v, span = here.left - below, here.last - here.first
        bent = jnp.clip(2 * (v - here.first) / span - 1, -1, 1)
        slope = _log_density_slope(here, below, power, share)
        return self._linear(here, t, jnp.where(here.mirrored, -bent, bent), slope)

    def unbend(self, x: Context, y: Vector, index: Index, t: Scalar) -> tuple[Scalar, Scalar]:
        here = self._left(x, y, index)
        way = jnp.where(here.mirrored, 1 - t, 1 + t) / 2
        below = here.left - here.first - jnp.clip(way, 0, 1) * (here.last - here.first)
        log_below, _ = _distribution(here.table, below / here.rest)
        share = jnp.clip(jnp.exp(log_below - here.log_below), FAINTEST, 1)
        s = jnp.clip((1 - share) / here.chosen, 0, 1)
        below, power = _quantile(here, here.log_below + jnp.log(share))
        slope = _log_density_slope(here, below, power, share)
        return self._linear(here, t, jnp.where(here.mirrored, 1 - 2 * s, 2 * s - 1), -slope)

    def _linear(self, here: Left, t: Scalar, bent: Scalar, slope: Scalar) -> tuple[Scalar, Scalar]:
        """`bent`, or `t` itself for an entry that is the last one with any width."""
        return jnp.where(here.single, t, bent), jnp.where(here.single, 0.0, slope)

    def _left(self, x: Context, y: Vector, index: Index) -> Left:
        equality = self.constraint.shape(x).equality(len(y))
        assert isinstance(equality, Equality)
        low, _ = self.constraint.bounds(x)
        tables = self._tables()
        width, rest, table = (jnp.asarray(values, y.dtype)[index] for values in tables)
        spent = jnp.sum(jnp.where(jnp.arange(len(y)) < index, y, low))
        single = (width <= 0) | (rest <= 0)
        width, rest = jnp.where(single, 1.0, width), jnp.where(single, 1.0, rest)
        most = width + rest
        thin = jnp.minimum(equality.margin, most / 4)
        left = jnp.clip(jnp.where(single, most / 2, equality.offset - spent), thin, most - thin)
        mirrored = left > most / 2
        left = jnp.where(mirrored, most - left, left)
        log_below, _ = _distribution(table, left / rest)
        before, _ = _distribution(table, (left - width) / rest)
        chosen = 1 - jnp.exp(before - log_below)
        ends = jnp.maximum(left - rest, 0), jnp.minimum(width, left)
        return Left(mirrored, left, rest, *ends, log_below, chosen, table, single)

    def _tables(self) -> Tables:
        bounds = constant(self.constraint.bounds, self.constraint.context_dim)
        assert bounds is not None
        low, high = (np.asarray(end, float) for end in bounds)
        return make_tables(tuple((high - low).tolist()))


def _log_density_slope(here: Left, below: Scalar, power: Scalar, share: Scalar) -> Scalar:
    """log of ∂bent/∂t, with dF/F = power·dS/S and d(share) = -chosen·ds."""
    return jnp.log(below / power * here.chosen / share / (here.last - here.first))


def _distribution(table: Float[Array, " nodes"], z: Scalar) -> tuple[Scalar, Scalar]:
    """log F at the share `z` of T, and its slope against log S; F is 0 below 0 and 1 above T."""
    upper = z > 0.5
    near = jnp.clip(jnp.where(upper, 1 - z, z), 1e-30, 0.5)
    place = (jnp.log2(near) + 1 + OCTAVES) / OCTAVES * (NODES - 1)
    cell = jnp.clip(jnp.floor(place).astype(int), 0, NODES - 2)
    start, end = table[cell], table[cell + 1]
    value = start + (end - start) * (place - cell)
    power = (end - start) * (NODES - 1) / (OCTAVES * np.log(2))
    below = jnp.exp(jnp.minimum(value, -np.log(2)))
    inside = jnp.where(upper, jnp.log1p(-below), value)
    log_below = jnp.where(z <= 0, -jnp.inf, jnp.where(z >= 1, 0.0, inside))
    return log_below, jnp.where(upper, power * below / (1 - below) * z / near, power)


def _quantile(here: Left, log_below: Scalar) -> tuple[Scalar, Scalar]:
    """S at which log F is `log_below`, and the slope of log F against log S there."""
    upper = log_below > -np.log(2)
    rest = -jnp.expm1(jnp.where(upper, jnp.minimum(log_below, -1e-7), -1.0))
    value = jnp.where(upper, jnp.log(rest), log_below)
    cell = jnp.clip(jnp.searchsorted(here.table, value) - 1, 0, NODES - 2)
    start, end = here.table[cell], here.table[cell + 1]
    place = cell + (value - start) / (end - start)
    near = jnp.exp2(place / (NODES - 1) * OCTAVES - OCTAVES - 1)
    power = (end - start) * (NODES - 1) / (OCTAVES * np.log(2))
    z = jnp.where(upper, 1 - near, near)
    slope = jnp.where(upper, power * rest / (1 - rest) * z / near, power)
    return z * here.rest, slope


@lru_cache
def make_tables(widths: tuple[float, ...]) -> Tables:
    """The tables of entries of these widths, from the last to the first: F_k(s) = ∫_{s-W}^s F_{k-1} / W.

    F is a power of s between two points of a fine grid, log-spaced at both ends, so that its integral is a closed form.
    """
    count = len(widths)
    shares = np.exp2(np.linspace(-OCTAVES - 1, -1, NODES))
    rest, tables = np.zeros(count), np.tile(np.log(shares), (count, 1))  # a last entry has no use for its table
    grid, below = np.zeros(0), np.zeros(0)
    for index in range(count - 1, -1, -1):
        rest[index] = total = sum(widths[index + 1 :])
        if total > 0:
            tables[index] = _power_law(grid, below, np.log(shares * total))
        width = widths[index]
        if width > 0:
            grid, below = _convolved(grid, below, width, total)
    return Tables(np.asarray(widths), rest, tables)


def _convolved(grid: np.ndarray, below: np.ndarray, width: float, total: float) -> tuple[np.ndarray, np.ndarray]:
    """A grid and the distribution function on it of the sum so far and one more uniform entry."""
    ends = np.exp2(np.linspace(-OCTAVES - 8, -1, FINE // 2)) * (total + width)
    new = np.concatenate([ends, (total + width) - ends[-2::-1], [total + width]])
    if total == 0:
        return new, np.minimum(new / width, 1)
    power = np.diff(np.log(below)) / np.diff(np.log(grid))
    pieces = below[:-1] * grid[:-1] / (power + 1) * np.expm1((power + 1) * np.diff(np.log(grid)))
    first = below[0] * grid[0] / (power[0] + 1)
    area = np.concatenate([[first], first + np.cumsum(pieces)])

    def integral(s: np.ndarray) -> np.ndarray:
        inside = np.exp(_power_law(grid, area, np.log(np.clip(s, 1e-300, total))))
        return np.where(s <= 0, 0.0, np.where(s >= total, area[-1] + (s - total), inside))

    return new, np.clip((integral(new) - integral(new - width)) / width, 1e-300, 1)


def _power_law(grid: np.ndarray, values: np.ndarray, log_s: np.ndarray) -> np.ndarray:
    """log of the values, linear in log s between the points of the grid and beyond its first."""
    x, y = np.log(grid), np.log(values)
    return np.where(log_s < x[0], y[0] + (log_s - x[0]) * (y[1] - y[0]) / (x[1] - x[0]), np.interp(log_s, x, y))
