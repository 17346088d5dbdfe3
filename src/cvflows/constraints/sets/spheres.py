"""Ball and Shell: spheres about the origin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from cvflows.constraints.base import Vector
from cvflows.constraints.forms import Cvxpy, Expression, Form, fixed
from cvflows.constraints.legacy_metric import NORM, QUADRATIC, LegacyRows, one_row
from cvflows.constraints.sets.named import SizedSet, assign
from cvflows.constraints.shapes.radial import Radial
from cvflows.constraints.shapes.separable import Separable, normalised
from cvflows.errors import ArgumentError, CVFlowsError, dimension, positive


@dataclass(frozen=True)
class Ball(SizedSet):
    """a·a ≤ radius²."""

    dim: int
    radius: float

    def __post_init__(self) -> None:
        assign(self, "dim", dimension("dim", self.dim))
        assign(self, "radius", positive("radius", self.radius))

    def rows(self, x: Vector, a: Vector) -> Vector:
        return (jnp.sum(a * a) / self.radius**2 - 1)[None]

    def shape(self, x: Vector) -> Separable:
        return normalised(quadratic=jnp.full(self.dim, 1 / self.radius**2))

    @property
    def radii(self) -> tuple[float, float]:
        return 0.0, self.radius

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        return fixed(cvxpy.norm(y) <= self.radius)

    def legacy_rows(self) -> LegacyRows:
        return one_row(self.radius**2, (self.radius + NORM) ** 2 - self.radius**2)


@dataclass(frozen=True)
class Shell(SizedSet):
    """inner² ≤ a·a ≤ outer²: an annulus in the plane, a hollow ball in space. Not convex."""

    dim: int
    inner: float
    outer: float
    convex = False

    def __post_init__(self) -> None:
        assign(self, "dim", dimension("dim", self.dim))
        assign(self, "inner", positive("inner", self.inner))
        assign(self, "outer", positive("outer", self.outer))
        if self.inner > self.outer:
            raise ArgumentError("inner", f"at most `outer` = {self.outer}", self.inner)
        if self.inner > math.sqrt(self.dim):
            raise ArgumentError("inner", f"at most √{self.dim}, the corner of the action box", self.inner)

    def rows(self, x: Vector, a: Vector) -> Vector:
        square = jnp.sum(a * a)
        return jnp.stack([square / self.outer**2 - 1, 1 - square / self.inner**2])

    def centre(self, x: Vector) -> Vector:
        radius = min((self.inner + self.outer) / 2, math.sqrt(self.dim))
        return jnp.full(self.dim, radius / math.sqrt(self.dim))

    def shape(self, x: Vector) -> Radial:
        return Radial(self.inner, self.outer)

    @property
    def radii(self) -> tuple[float, float]:
        return self.inner, self.outer

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        raise CVFlowsError("no cvxpy form for Shell, which is not convex")

    def legacy_rows(self) -> LegacyRows:
        return LegacyRows(np.array([self.outer**2, self.inner**2]), np.full(2, QUADRATIC))
