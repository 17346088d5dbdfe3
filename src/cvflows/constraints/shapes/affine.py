"""Half-spaces: one of them is a separable row, several are solved by the interior-point method for affine rows."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints import interior
from cvflows.constraints.arrays import Codes, Columns, Rows, Scalar, Vector
from cvflows.constraints.columns import AbstractSet, ColumnSet, Solved
from cvflows.constraints.shapes.base import Shape, Unknown, rounding
from cvflows.constraints.shapes.exits import TINY, Index
from cvflows.constraints.shapes.row import Row
from cvflows.constraints.shapes.separable import Separable

UNIT = 2.0**-22
"""Rounding of a sum of a few terms of size one, in float32."""


class Affine(Shape):
    """Rows offset + normal·a ≤ 0, with shapes (rows,) and (rows, dim)."""

    offset: Float[Array, "rows *batch"]
    normal: Float[Array, "rows dim *batch"]

    @property
    def iterative(self) -> bool:
        return bool(self.offset.shape[0] > 1)

    def _row(self) -> Separable:
        """The only half-space as a separable row."""
        return Separable((Row(-self.offset[0], linear=self.normal[0]),), centred=False)

    def project(self, here: ColumnSet, a: Columns) -> Solved:
        return super().project(here, a) if self.iterative else self._row().project(here, a)

    def maximise(self, here: ColumnSet, direction: Columns) -> tuple[Columns, Codes]:
        return super().maximise(here, direction) if self.iterative else self._row().maximise(here, direction)

    def margin(self, here: ColumnSet, a: Columns) -> Rows:
        if here.rows(a).shape[0] != len(self.offset):  # rows of tighter bounds are among them
            return super().margin(here, a)
        terms = jnp.sum(jnp.abs(self.normal * a[None]), axis=1)
        return rounding(a) * (jnp.abs(self.offset) + terms)

    def centre(self, here: ColumnSet) -> Columns:
        return super().centre(here) if self.iterative else self._row().centre(here)

    def convex_rows(self, here: ColumnSet) -> interior.Flat | interior.Curved:
        return interior.Flat(self.offset, self.normal)

    def gauge(
        self, constraint: AbstractSet, x: Vector, centre: Vector, v: Vector, far: Scalar, *, at_zero: bool
    ) -> list[Scalar]:
        along, there = (jnp.sum(self.normal * vector[None], axis=1) for vector in (v, centre))
        unsure = lax.stop_gradient(UNIT * (jnp.abs(self.offset) + jnp.sum(jnp.abs(self.normal), axis=1)))
        return [jnp.max(along / jnp.maximum(-(self.offset + there) - unsure, TINY))]

    def interval(self, constraint: AbstractSet, x: Vector, chosen: Vector, index: Index) -> tuple[Scalar, Scalar]:
        if self.iterative:
            return super().interval(constraint, x, chosen, index)
        return self._row().interval(constraint, x, chosen, index)

    def is_sliceable(self, *, centred: bool) -> bool:
        return not self.iterative

    @property
    def flat(self) -> bool:
        return True

    def merge(self, others: Sequence[Shape]) -> Shape:
        parts = [self, *(other for other in others if isinstance(other, Affine))]
        if len(parts) <= len(others):
            return Unknown()
        return Affine(
            jnp.concatenate([part.offset for part in parts]), jnp.concatenate([part.normal for part in parts])
        )
