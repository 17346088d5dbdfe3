"""How far a ray from an inner point stays in the set: the Minkowski gauge, γ(v) = inf {s > 0 : c + v/s ∈ C(x)}.

A closed form for every built-in set, the maximum over the parts of an intersection, bracketed bisection for the rest.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint, Intersection, Reads
from cvflows.constraints.structure import Affine, Radial, Row, Separable, Total

Vector = Float[Array, "dim"]
Scalar = Float[Array, ""]
TINY = 1e-12
HALVINGS = 26
UNIT = 2.0**-22
"""Rounding of a sum of a few terms of size one, in float32."""


def gauge(
    constraint: AbstractConstraint, x: Float[Array, context], centre: Vector, v: Vector, *, at_zero: bool
) -> Scalar:
    """γ(v) of C(x) about `centre`, which must lie inside; ≥ 0. `at_zero` promises that the centre is the origin."""
    low, high = constraint.bounds(x)
    size = lax.stop_gradient(jnp.maximum(jnp.max(jnp.abs(v)), TINY))
    ray = v / size  # γ(s·v) = s·γ(v), and differences of rows are exact to more digits along a long ray
    box = jnp.max(jnp.maximum(ray / jnp.maximum(high - centre, TINY), -ray / jnp.maximum(centre - low, TINY)))
    values = _gauges(constraint, x, centre, ray, 1 / jnp.maximum(box, TINY), at_zero)
    return jnp.max(jnp.stack([box, *values])) * size


def _gauges(
    constraint: AbstractConstraint, x: Float[Array, context], c: Vector, v: Vector, far: Scalar, at_zero: bool
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
    match constraint.structure(x):
        case Separable(rows=rows) if at_zero or all(row.absolute is None for row in rows):
            return [_of_row(row, c, v) for row in rows]
        case Affine(offset=offset, normal=normal):
            along, there = (jnp.sum(normal * vector[None], axis=1) for vector in (v, c))
            unsure = lax.stop_gradient(UNIT * (jnp.abs(offset) + jnp.sum(jnp.abs(normal), axis=1)))
            return [jnp.max(along / jnp.maximum(-(offset + there) - unsure, TINY))]
        case Total(total=total, margin=margin):
            excess = jnp.sum(c) - total
            return [jnp.sum(v) / jnp.maximum(margin - excess, TINY), -jnp.sum(v) / jnp.maximum(margin + excess, TINY)]
        case Radial(outer=outer):
            return [jnp.sqrt(jnp.sum(v * v)) / outer]  # only ever asked about the outer sphere
    if constraint.quadratic:
        start, slope = jax.jvp(lambda a: constraint.rows(x, a), (c,), (v,))
        curve = constraint.rows(x, c + v) - start - slope
        return [jnp.max(_root(curve, slope, -start))]
    return [1 / searched_exit(constraint, x, c, v, far)]


def _of_row(row: Row, c: Vector, v: Vector) -> Scalar:
    """The gauge of q t² + p t ≤ room."""
    curve = jnp.zeros(()) if row.quadratic is None else jnp.sum(row.quadratic * v * v)
    slope = jnp.zeros(())
    if row.quadratic is not None:
        slope = slope + 2 * jnp.sum(row.quadratic * c * v)
    if row.absolute is not None:
        slope = slope + jnp.sum(row.absolute * jnp.abs(v))
    if row.linear is not None:
        slope = slope + jnp.sum(row.linear * v)
    return _root(curve, slope, -row.usage(c))


def _root(curve: Array, slope: Array, room: Array) -> Array:
    """1/t for the positive root t of curve·t² + slope·t = room."""
    room = jnp.maximum(room, TINY)
    square = jnp.maximum(slope * slope + 4 * jnp.maximum(curve, 0) * room, TINY**2)
    return jnp.maximum(slope + jnp.sqrt(square), 0) / (2 * room)


def searched_exit(
    constraint: AbstractConstraint, x: Float[Array, context], c: Vector, v: Vector, far: Scalar
) -> Scalar:
    """Where the ray leaves the rows, by bisection on (0, far); its derivative by the implicit function theorem."""

    def worst(t: Scalar) -> Scalar:
        return jnp.max(constraint.rows(x, c + t * v))

    def halve(_: Array, bracket: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        inside, outside = bracket
        middle = (inside + outside) / 2
        good = worst(middle) <= 0
        return jnp.where(good, middle, inside), jnp.where(good, outside, middle)

    inside, _ = lax.stop_gradient(lax.fori_loop(0, HALVINGS, halve, (jnp.zeros(()), far)))
    inside = jnp.maximum(inside, far * 1e-7)
    value, slope = jax.jvp(worst, (inside,), (jnp.ones(()),))
    moved = (value - lax.stop_gradient(value)) / jnp.maximum(lax.stop_gradient(slope), 1e-6)
    return jnp.where(worst(far) <= 0, far, inside - moved)
