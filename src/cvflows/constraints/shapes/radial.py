"""What lies between two spheres about the origin."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp

from cvflows.constraints import multipliers
from cvflows.constraints.arrays import Codes, Columns, Scalar, Vector
from cvflows.constraints.columns import AbstractSet, ColumnSet, Solved
from cvflows.constraints.oracle import project_from_afar
from cvflows.constraints.outcome import Outcome
from cvflows.constraints.shapes.base import Shape, Unknown


class Radial(Shape):
    """inner ≤ ‖a‖ ≤ outer."""

    inner: float = eqx.field(static=True)
    outer: float = eqx.field(static=True)

    @property
    def iterative(self) -> bool:
        return False

    def project(self, here: ColumnSet, a: Columns) -> Solved:
        inner, outer = self.inner, self.outer
        thickness = min(4e-6, (outer - inner) / (2 * outer))  # rounding must not carry the point out again
        y = multipliers.solve_radial(inner * (1 + thickness), outer * (1 - thickness), a)
        return Solved(y, self.centre(here), jnp.full(a.shape[1], Outcome.EXACT))

    def maximise(self, here: ColumnSet, direction: Columns) -> tuple[Columns, Codes]:
        return project_from_afar(here, direction)

    def centre(self, here: ColumnSet) -> Columns:
        return here.centre

    def gauge(
        self, constraint: AbstractSet, x: Vector, centre: Vector, v: Vector, far: Scalar, *, at_zero: bool
    ) -> list[Scalar]:
        return [jnp.sqrt(jnp.sum(v * v)) / self.outer]  # only ever asked about the outer sphere

    @property
    def shell(self) -> tuple[float, float]:
        return self.inner, self.outer

    def bounded(self) -> Shape:
        return Unknown()  # the solver knows the action box only
