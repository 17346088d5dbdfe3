"""MaxPower, Orthoplex, SinSquared: one sum whose weights depend on the context."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from cvflows.constraints.base import Vector
from cvflows.constraints.forms import Cvxpy, Expression, Form, setter
from cvflows.constraints.legacy_metric import LINEAR, QUADRATIC, LegacyRows, one_row
from cvflows.constraints.sets.named import SizedSet, assign
from cvflows.constraints.shapes.separable import Separable, normalised
from cvflows.errors import dimension, positive


@dataclass(frozen=True)
class _Weighted(SizedSet):
    """One separable row whose coefficients depend on the context, bounded by 1 after normalisation."""

    dim: int
    bound: float

    def __post_init__(self) -> None:
        assign(self, "dim", dimension("dim", self.dim))
        assign(self, "bound", positive("bound", self.bound))

    @property
    def context_dim(self) -> int:
        return self.dim


@dataclass(frozen=True)
class MaxPower(_Weighted):
    """Σ max(w_i a_i, 0) ≤ bound, with w = x: mechanical power spent, none recovered."""

    def rows(self, x: Vector, a: Vector) -> Vector:
        return (jnp.sum(jnp.maximum(x * a, 0)) / self.bound - 1)[None]

    def shape(self, x: Vector) -> Separable:
        return normalised(absolute=jnp.abs(x) / (2 * self.bound), linear=x / (2 * self.bound))  # max(z,0) = (|z| + z)/2

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        weight = cvxpy.Parameter(self.dim)
        return Form([cvxpy.sum(cvxpy.pos(cvxpy.multiply(weight, y))) <= self.bound], setter(weight))

    def legacy_rows(self) -> LegacyRows:
        return one_row(self.bound, LINEAR)


@dataclass(frozen=True)
class Orthoplex(_Weighted):
    """Σ |w_i a_i| ≤ bound, with w = x: total power, spent or absorbed."""

    def rows(self, x: Vector, a: Vector) -> Vector:
        return (jnp.sum(jnp.abs(x * a)) / self.bound - 1)[None]

    def shape(self, x: Vector) -> Separable:
        return normalised(absolute=jnp.abs(x) / self.bound)

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        weight = cvxpy.Parameter(self.dim)
        return Form([cvxpy.norm1(cvxpy.multiply(weight, y)) <= self.bound], setter(weight))

    def legacy_rows(self) -> LegacyRows:
        return one_row(self.bound, LINEAR)


@dataclass(frozen=True)
class SinSquared(_Weighted):
    """Σ a_i² sin²θ_i ≤ bound, with θ = x."""

    def rows(self, x: Vector, a: Vector) -> Vector:
        return (jnp.sum((a * jnp.sin(x)) ** 2) / self.bound - 1)[None]

    def shape(self, x: Vector) -> Separable:
        return normalised(quadratic=jnp.sin(x) ** 2 / self.bound)

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        sine = cvxpy.Parameter(self.dim)
        return Form([cvxpy.norm(cvxpy.multiply(sine, y)) <= self.bound**0.5], setter(sine, np.sin))

    def legacy_rows(self) -> LegacyRows:
        return one_row(self.bound, QUADRATIC)
