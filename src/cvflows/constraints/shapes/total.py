"""Shares of a total."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from cvflows.constraints import multipliers
from cvflows.constraints.arrays import Codes, Columns, Scalar, Vector
from cvflows.constraints.columns import AbstractSet, ColumnSet, Solved
from cvflows.constraints.oracle import project_from_afar
from cvflows.constraints.outcome import Outcome
from cvflows.constraints.shapes.base import Equality, Shape
from cvflows.constraints.shapes.exits import NARROWEST, TINY, Index, widened, within


class Total(Shape):
    """|Σ a - total| ≤ tolerance."""

    total: Float[Array, "*batch"]
    tolerance: float = eqx.field(static=True)

    @property
    def iterative(self) -> bool:
        return False

    def project(self, here: ColumnSet, a: Columns) -> Solved:
        y = multipliers.solve_total(self.total, a, here.low, here.high)
        return Solved(y, self.centre(here), jnp.full(a.shape[1], Outcome.EXACT))

    def maximise(self, here: ColumnSet, direction: Columns) -> tuple[Columns, Codes]:
        return project_from_afar(here, direction)

    def centre(self, here: ColumnSet) -> Columns:
        return multipliers.solve_total(self.total, here.centre, here.low, here.high)

    def gauge(
        self, constraint: AbstractSet, x: Vector, centre: Vector, v: Vector, far: Scalar, *, at_zero: bool
    ) -> list[Scalar]:
        excess, room = jnp.sum(centre) - self.total, self.tolerance
        return [jnp.sum(v) / jnp.maximum(room - excess, TINY), -jnp.sum(v) / jnp.maximum(room + excess, TINY)]

    def interval(self, constraint: AbstractSet, x: Vector, chosen: Vector, index: Index) -> tuple[Scalar, Scalar]:
        low, high = constraint.bounds(x)
        later = jnp.arange(len(chosen)) > index
        spent = jnp.sum(chosen) - self.total
        inner = self.tolerance * 0.998 - NARROWEST * jnp.sum(
            later
        )  # clear of rounding and of later intervals' least width
        least, most = jnp.sum(jnp.where(later, low, 0)), jnp.sum(jnp.where(later, high, 0))
        first, last = within([(spent + most + inner, -spent - least + inner)], low[index], high[index])
        return widened(first, last, low[index], high[index])  # earlier entries can leave no more than a point

    def is_sliceable(self, *, centred: bool) -> bool:
        return True

    def equality(self, dim: int) -> Equality:
        return Equality(jnp.ones(dim), self.total, self.tolerance)
