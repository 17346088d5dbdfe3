"""Separable rows: each a sum over the entries of the action, so that one multiplier per row solves them."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from cvflows.constraints import multipliers
from cvflows.constraints.arrays import Codes, Columns, Rows, Scalar, Vector
from cvflows.constraints.columns import AbstractSet, ColumnSet, Solved
from cvflows.constraints.oracle import unit
from cvflows.constraints.outcome import Outcome
from cvflows.constraints.project import land
from cvflows.constraints.shapes.base import Shape, Unknown, rounding
from cvflows.constraints.shapes.exits import KEEP, LEAST, NARROWEST, Index, root, widened, within
from cvflows.constraints.shapes.row import Row


class Separable(Shape):
    """Several `Row`s. `centred`: every one is smallest at a = 0 (|l| ≤ s), so that one point minimises them all."""

    rows: tuple[Row, ...]
    centred: bool = eqx.field(static=True)

    @property
    def iterative(self) -> bool:
        return len(self.rows) > (2 if self.centred else 1)

    @property
    def _half_space(self) -> bool:
        return len(self.rows) == 1 and self.rows[0].is_half_space

    def project(self, here: ColumnSet, a: Columns) -> Solved:
        if self.iterative:
            return super().project(here, a)
        anchor = self.centre(here)
        y, prices = multipliers.solve_separable(
            *lax.stop_gradient((self.rows, a, here.low, here.high, anchor)), weight=1.0
        )
        y = multipliers.attach_gradient(self.rows, y, prices, a, here.low, here.high)
        return Solved(y, anchor, jnp.full(a.shape[1], Outcome.EXACT))

    def maximise(self, here: ColumnSet, direction: Columns) -> tuple[Columns, Codes]:
        if self.iterative:
            return super().maximise(here, direction)
        c, size = unit(direction)
        anchor = self.centre(here)
        y, _ = multipliers.solve_separable(self.rows, c, here.low, here.high, anchor, weight=0.0)
        return land(here, jnp.where(size > 0, y, anchor), anchor, jnp.full(c.shape[1], Outcome.EXACT))

    def margin(self, here: ColumnSet, a: Columns) -> Rows:
        if not self.rows:
            return jnp.zeros_like(here.rows(a))  # bounds hold exactly after clipping
        if here.rows(a).shape[0] != len(self.rows):
            return super().margin(here, a)
        return rounding(a) * jnp.stack([2 * jnp.abs(row.bound) for row in self.rows])

    def centre(self, here: ColumnSet) -> Columns:
        """The point that makes every row smallest, when the set is centred or has a single row."""
        low, high = here.low, here.high
        zero = jnp.clip(jnp.zeros_like(low), low, high)
        if self.centred:
            return zero
        if self.iterative:
            return super().centre(here)
        (row,) = self.rows
        if row.linear is None:
            return zero
        kink = jnp.zeros_like(low) if row.absolute is None else row.absolute
        return jnp.where(row.linear > kink, low, jnp.where(row.linear < -kink, high, zero))

    def gauge(
        self, constraint: AbstractSet, x: Vector, centre: Vector, v: Vector, far: Scalar, *, at_zero: bool
    ) -> list[Scalar]:
        if not at_zero and any(row.absolute is not None for row in self.rows):  # kinks elsewhere on the ray
            return super().gauge(constraint, x, centre, v, far, at_zero=at_zero)
        return [_gauge(row, centre, v) for row in self.rows]

    def interval(self, constraint: AbstractSet, x: Vector, chosen: Vector, index: Index) -> tuple[Scalar, Scalar]:
        if not self.centred and not self._half_space:
            return super().interval(constraint, x, chosen, index)
        low, high = constraint.bounds(x)
        later = jnp.arange(len(chosen)) > index
        others = chosen if self.centred else _cheapest(self.rows[0], chosen, low, high, later)
        first, last = within([_reach(row, others, index) for row in self.rows], low[index], high[index])
        if self.centred:
            return first, last
        return widened(first, last, low[index], high[index])  # earlier entries can leave no more than a point

    def is_sliceable(self, *, centred: bool) -> bool:
        return self.unlimited or self._half_space or centred

    def origin_room(self) -> tuple[Scalar, ...] | None:
        return tuple(row.bound for row in self.rows) if self.centred else None

    @property
    def unlimited(self) -> bool:
        return not self.rows

    def merge(self, others: Sequence[Shape]) -> Shape:
        parts = [self, *(other for other in others if isinstance(other, Separable))]
        if len(parts) <= len(others):
            return Unknown()
        rows = tuple(row for part in parts for row in part.rows)
        return Separable(rows, centred=all(part.centred for part in parts))


def normalised(**coefficients: Vector) -> Separable:
    """One row with bound 1 that is smallest at a = 0."""
    return Separable((Row(jnp.ones(()), **coefficients),), centred=True)


def _gauge(row: Row, c: Vector, v: Vector) -> Scalar:
    """The gauge of q t² + p t ≤ room."""
    curve = jnp.zeros(()) if row.quadratic is None else jnp.sum(row.quadratic * v * v)
    slope = jnp.zeros(())
    if row.quadratic is not None:
        slope = slope + 2 * jnp.sum(row.quadratic * c * v)
    if row.absolute is not None:
        slope = slope + jnp.sum(row.absolute * jnp.abs(v))
    if row.linear is not None:
        slope = slope + jnp.sum(row.linear * v)
    return root(curve, slope, -row.usage(c))


def _cheapest(row: Row, chosen: Vector, low: Vector, high: Vector, later: Array) -> Vector:
    """`chosen`, completed by the later entries that use a half-space's row least."""
    assert row.linear is not None
    return jnp.where(later, jnp.where(row.linear > 0, low, high), chosen)


def _reach(row: Row, others: Vector, index: Index) -> tuple[Scalar, Scalar]:
    """How far entry `index` may go down and up: the root of q t² + p t = room for p = s ± l."""
    kink, slope = (jnp.zeros(()) if field is None else field[index] for field in (row.absolute, row.linear))
    room = -row.usage(others)
    if row.is_half_space:  # one side is free, and the other end may be below zero
        assert row.linear is not None
        unsure = (1 - KEEP) * (jnp.abs(room) + jnp.abs(row.bound)) + NARROWEST * jnp.sum(jnp.abs(row.linear))
        edge = (room - lax.stop_gradient(unsure)) / jnp.where(slope == 0, 1.0, slope)
        return jnp.where(slope < 0, -edge, jnp.inf), jnp.where(slope > 0, edge, jnp.inf)
    spare = jnp.maximum(room * KEEP, LEAST)

    def end(price: Scalar) -> Scalar:
        price = jnp.maximum(price, LEAST)
        if row.quadratic is None:
            return spare / price
        return 2 * spare / (price + jnp.sqrt(price * price + 4 * row.quadratic[index] * spare))

    return end(kink - slope), end(kink + slope)
