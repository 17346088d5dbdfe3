"""How far a ray from an inner point stays in the set: the Minkowski gauge, γ(v) = inf {s > 0 : c + v/s ∈ C(x)}.

The set's shape knows the gauge of its rows; that of an intersection is the maximum over its parts.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint, Intersection, Reads
from cvflows.constraints.shapes.exits import TINY

Vector = Float[Array, "dim"]
Scalar = Float[Array, ""]


def gauge(
    constraint: AbstractConstraint, x: Float[Array, "context"], centre: Vector, v: Vector, *, at_zero: bool
) -> Scalar:
    """γ(v) of C(x) about `centre`, which must lie inside; ≥ 0. `at_zero` promises that the centre is the origin."""
    low, high = constraint.bounds(x)
    size = lax.stop_gradient(jnp.maximum(jnp.max(jnp.abs(v)), TINY))
    ray = v / size  # γ(s·v) = s·γ(v), and differences of rows are exact to more digits along a long ray
    box = jnp.max(jnp.maximum(ray / jnp.maximum(high - centre, TINY), -ray / jnp.maximum(centre - low, TINY)))
    values = _gauges(constraint, x, centre, ray, 1 / jnp.maximum(box, TINY), at_zero)
    return jnp.max(jnp.stack([box, *values])) * size


def _gauges(
    constraint: AbstractConstraint, x: Float[Array, "context"], c: Vector, v: Vector, far: Scalar, at_zero: bool
) -> list[Scalar]:
    """The gauge of every row but those of the bounds, which end the ray at `far`."""
    if isinstance(constraint, Intersection):
        return [
            value
            for part in constraint.parts
            for value in _gauges(part, x if part.context_dim else x[:0], c, v, far, at_zero)
        ]
    if isinstance(constraint, Reads):
        return _gauges(constraint.part, x[jnp.asarray(constraint.indices, int)], c, v, far, at_zero)
    return constraint.shape(x).gauge(constraint, x, c, v, far, at_zero=at_zero)
