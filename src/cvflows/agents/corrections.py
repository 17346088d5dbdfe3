"""What is done about actions that a policy asks for and may not take: a penalty, or a correction in one step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint, all_rows

Vector = Float[Array, "dim"]
STEEPNESS = 1e-3
"""Least slope that a row is taken to have."""


def _rows_and_slopes(constraint: AbstractConstraint, x: Float[Array, "context"], a: Vector) -> tuple[Array, Array]:
    def rows(a: Vector) -> Array:
        return all_rows(constraint, x, a)

    return rows(a), lax.stop_gradient(jax.jacrev(rows)(a))


def penalty(constraint: AbstractConstraint, x: Float[Array, "context"], a: Vector) -> Float[Array, ""]:
    """‖max(0, gᵢ/‖∇gᵢ‖)‖₂: how far an action is from every row's boundary, to first order."""
    rows, slopes = _rows_and_slopes(constraint, x, a)
    size = jnp.sqrt(jnp.sum(slopes**2, axis=1))
    far = jnp.maximum(rows, 0) / jnp.maximum(size, STEEPNESS)
    square = jnp.sum(far**2)
    outside = square > 0
    return jnp.where(outside, jnp.sqrt(jnp.where(outside, square, 1.0)), 0.0)


def correct_worst(constraint: AbstractConstraint, x: Float[Array, "context"], a: Vector) -> Vector:
    """a - λ∇g of the row with the largest λ = max(0, g)/‖∇g‖², within the box (Dalal et al. 2018)."""
    rows, slopes = _rows_and_slopes(constraint, x, a)
    price = jnp.maximum(rows, 0) / jnp.maximum(jnp.sum(slopes**2, axis=1), STEEPNESS**2)
    worst = jnp.argmax(price)
    return jnp.clip(a - price[worst] * slopes[worst], -1, 1)
