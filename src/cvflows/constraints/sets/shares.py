"""Sum and Simplex: shares of a total."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from cvflows.constraints.base import Vector
from cvflows.constraints.forms import Cvxpy, Expression, Form
from cvflows.constraints.legacy_metric import LegacyRows, linear_rows
from cvflows.constraints.sets.box import BoundedSet, Bounds
from cvflows.constraints.sets.named import assign
from cvflows.constraints.shapes.total import Total
from cvflows.errors import ArgumentError, positive


@dataclass(frozen=True)
class Sum(BoundedSet):
    """Σ a_i = total within `margin`, each share within [low, high]. `total=None` reads the total from the context."""

    dim: int
    total: float | None = 1.0
    low: Bounds = 0.0
    high: Bounds = 1.0
    margin: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        assign(self, "margin", positive("margin", self.margin))
        low, high = sum(self.low), sum(self.high)  # type: ignore[arg-type]
        if self.total is not None and not low <= self.total <= high:
            raise ArgumentError("total", f"a number in [{low:g}, {high:g}], what the bounds allow", self.total)

    @property
    def context_dim(self) -> int:
        return 0 if self.total is not None else 1

    @property
    def thin(self) -> bool:
        return True

    def _total(self, x: Vector) -> Array:
        return x[0] if self.total is None else jnp.asarray(self.total, float)

    def rows(self, x: Vector, a: Vector) -> Vector:
        excess = jnp.sum(a) - self._total(x)
        return jnp.concatenate([jnp.stack([excess - self.margin, -excess - self.margin]), self.bound_rows(a)])

    def centre(self, x: Vector) -> Vector:
        low, high = self.bounds(x)
        share = jnp.clip((self._total(x) - jnp.sum(low)) / jnp.sum(high - low), 0, 1)
        return low + share * (high - low)

    def shape(self, x: Vector) -> Total:
        return Total(self._total(x), self.margin)

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        total = cvxpy.Parameter()

        def set_context(x: np.ndarray) -> None:
            total.value = float(x[0]) if self.total is None else self.total

        return Form([cvxpy.sum(y) == total, *self.bound_form(y)], set_context)

    def legacy_rows(self) -> LegacyRows:
        return linear_rows(2 + self.count_bound_rows())


def Simplex(dim: int, *, margin: float = 1e-4) -> Sum:  # noqa: N802 - reads like the set it makes
    """Shares a ≥ 0 with Σ a_i = 1."""
    return Sum(dim, total=1.0, low=0.0, high=1.0, margin=margin)
