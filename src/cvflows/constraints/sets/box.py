"""Box: bounds on every entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from cvflows.constraints.base import Vector
from cvflows.constraints.forms import Cvxpy, Expression, Form, fixed
from cvflows.constraints.legacy_metric import LegacyRows, linear_rows
from cvflows.constraints.sets.named import SizedSet, assign
from cvflows.constraints.shapes.separable import Separable
from cvflows.errors import ArgumentError, dimension

Bounds = float | Sequence[float]


class BoundedSet(SizedSet):
    """A set with bounds of its own, [low, high] within [-1,1], given as numbers or one per entry."""

    low: Bounds
    high: Bounds

    def __post_init__(self) -> None:
        assign(self, "dim", dimension("dim", self.dim))
        for name in ("low", "high"):
            value = np.asarray(getattr(self, name), float)
            if value.shape not in ((), (self.dim,)):
                raise ArgumentError(name, f"one number or {self.dim}", f"shape {value.shape}")
            if not (np.abs(value) <= 1).all():
                raise ArgumentError(name, "numbers within the action box [-1,1]", value)
            assign(self, name, tuple(np.broadcast_to(value, self.dim).tolist()))
        if (np.asarray(self.low) >= np.asarray(self.high)).any():
            raise ArgumentError("low", f"below `high` = {self.high}", self.low)

    def bounds(self, x: Vector) -> tuple[Vector, Vector]:
        return jnp.asarray(self.low), jnp.asarray(self.high)

    def bound_rows(self, a: Vector) -> Vector:
        """Rows for the bounds that are tighter than the action box, which is counted apart."""
        low, high = np.asarray(self.low, float), np.asarray(self.high, float)
        lower, upper = np.flatnonzero(low > -1), np.flatnonzero(high < 1)
        return jnp.concatenate([jnp.asarray(low[lower]) - a[lower], a[upper] - jnp.asarray(high[upper])])

    def count_bound_rows(self) -> int:
        """How many rows `bound_rows` has."""
        return int(np.sum(np.asarray(self.low) > -1) + np.sum(np.asarray(self.high) < 1))

    def bound_form(self, y: Expression) -> list[Expression]:
        """The bounds as constraints of the reference solver."""
        return [y >= np.asarray(self.low), y <= np.asarray(self.high)]


@dataclass(frozen=True)
class Box(BoundedSet):
    """low ≤ a ≤ high, within [-1,1]. `Box(dim)` is the action box itself: no further limit."""

    dim: int
    low: Bounds = -1.0
    high: Bounds = 1.0

    def rows(self, x: Vector, a: Vector) -> Vector:
        return self.bound_rows(a)

    def shape(self, x: Vector) -> Separable:
        return Separable((), centred=True)

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        return fixed(*self.bound_form(y))

    def legacy_rows(self) -> LegacyRows:
        return linear_rows(self.count_bound_rows())
