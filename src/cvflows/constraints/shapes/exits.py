"""Where rays and axes leave a set: what the shapes' closed forms share, and the search for sets that have none."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from cvflows.constraints.arrays import Scalar, Vector
from cvflows.constraints.columns import AbstractSet

Index = int | Array
TINY = 1e-12
HALVINGS = 26
KEEP = 1 - 2e-6
"""Share of the remaining room that is used, so that rounding does not spend more than there is."""
LEAST = 1e-9
NARROWEST = 2.0**-21
"""Width of the narrowest interval: eight units in the last place of an action of size one."""


def root(curve: Array, slope: Array, room: Array) -> Array:
    """1/t for the positive root t of curve·t² + slope·t = room."""
    room = jnp.maximum(room, TINY)
    square = jnp.maximum(slope * slope + 4 * jnp.maximum(curve, 0) * room, TINY**2)
    return jnp.maximum(slope + jnp.sqrt(square), 0) / (2 * room)


def searched_exit(constraint: AbstractSet, x: Vector, c: Vector, v: Vector, far: Scalar) -> Scalar:
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


def within(ends: Sequence[tuple[Scalar, Scalar]], low: Scalar, high: Scalar) -> tuple[Scalar, Scalar]:
    """The part of [low, high] that every pair of ends leaves: an entry may go `down` below zero and `up` above it."""
    for down, up in ends:
        low, high = jnp.maximum(low, -down), jnp.minimum(high, up)
    return low, high


def widened(first: Scalar, last: Scalar, low: Scalar, high: Scalar) -> tuple[Scalar, Scalar]:
    """The interval, at least as wide as float32 can tell, so that the log of its width has a value and a gradient."""
    middle = jnp.clip((first + last) / 2, low + NARROWEST / 2, high - NARROWEST / 2)
    narrow = last - first < NARROWEST
    return jnp.where(narrow, middle - NARROWEST / 2, first), jnp.where(narrow, middle + NARROWEST / 2, last)
