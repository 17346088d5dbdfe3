"""Tip and MomentArm: limits on the joints of robots."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from cvflows.constraints.base import Vector
from cvflows.constraints.forms import Cvxpy, Expression, Form, setter
from cvflows.constraints.legacy_metric import LINEAR, QUADRATIC, LegacyRows, one_row
from cvflows.constraints.sets.named import NamedSet, assign
from cvflows.constraints.shapes.affine import Affine
from cvflows.errors import positive


@dataclass(frozen=True)
class Tip(NamedSet):
    """a₁² + 2a₁(a₁+a₂)cosθ₂ + (a₁+a₂)² ≤ bound, with θ₂ = x: how fast a two-link arm's tip may be pushed."""

    bound: float
    action_dim = 2
    context_dim = 1
    convex = proven = True
    quadratic = True
    holds_centre = True  # the row is -1 at the origin

    def __post_init__(self) -> None:
        assign(self, "bound", positive("bound", self.bound))

    def rows(self, x: Vector, a: Vector) -> Vector:
        first, both = a[0], a[0] + a[1]
        return ((first**2 + 2 * first * both * jnp.cos(x[0]) + both**2) / self.bound - 1)[None]

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        # with p = a₁, q = a₁ + a₂: p² + 2pq cosθ + q² = cos²(θ/2)(p+q)² + sin²(θ/2)(p-q)²
        half = cvxpy.Parameter(2)
        both = cvxpy.hstack([2 * y[0] + y[1], -y[1]])
        limit = cvxpy.norm(cvxpy.multiply(half, both)) <= self.bound**0.5
        return Form([limit], setter(half, lambda x: np.array([np.cos(x[0] / 2), np.sin(x[0] / 2)])))

    def legacy_rows(self) -> LegacyRows:
        return one_row(self.bound, QUADRATIC)


@dataclass(frozen=True)
class MomentArm(NamedSet):
    """w₁a₁sin(θ₁+θ₂+θ₃) + w₄a₄sin(θ₄+θ₅+θ₆) ≤ bound for six joints, with x = (w₁, w₄, θ₁…θ₆)."""

    bound: float
    action_dim = 6
    context_dim = 8
    convex = proven = True

    def __post_init__(self) -> None:
        assign(self, "bound", positive("bound", self.bound))

    def normal(self, x: Vector) -> Vector:
        """The row's slope in the action."""
        zero = jnp.zeros(())
        back, front = x[0] * jnp.sin(jnp.sum(x[2:5])), x[1] * jnp.sin(jnp.sum(x[5:8]))
        return jnp.stack([back, zero, zero, front, zero, zero]) / self.bound

    def rows(self, x: Vector, a: Vector) -> Vector:
        return (jnp.sum(self.normal(x) * a) - 1)[None]

    def shape(self, x: Vector) -> Affine:
        return Affine(-jnp.ones(1), self.normal(x)[None])

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        normal = cvxpy.Parameter(6)
        return Form([normal @ y <= 1], setter(normal, lambda x: np.asarray(self.normal(jnp.asarray(x)))))

    def legacy_rows(self) -> LegacyRows:
        return one_row(self.bound, LINEAR)
