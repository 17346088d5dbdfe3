"""Squashing along the rays of a set: actions that a network's free output is brought to from an inner point c.

    α-projection:    a = c + v / max(γ(v), 1)
    radial squash:   a = c + v · tanh(γ(v)) / γ(v)

with v = output - c and γ the set's gauge (Kasaura et al. 2023). Sets that no ray fits, such as shells, keep only what
a ray can: their outer boundary.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint
from cvflows.maps.gauge import gauge
from cvflows.maps.inside import ROOM, inner_point, is_centred

Vector = Float[Array, "dim"]
Scalar = Float[Array, ""]
INSIDE = 1 - 4e-6
"""How much of the way to the boundary is used, so that rounding does not step out."""
NODES = 64
TINY = 1e-6


def centre_of(constraint: AbstractConstraint, x: Float[Array, "context"]) -> Vector:
    """The point that rays start from: one inside the rows and the bounds; the origin where the set is hollow."""
    hollow = constraint.shape(jnp.zeros(constraint.context_dim)).shell is not None
    return jnp.zeros(constraint.action_dim) if hollow else inner_point(constraint, x)


def _gauge(constraint: AbstractConstraint, x: Float[Array, "context"], centre: Vector, v: Vector) -> Scalar:
    """γ(v), and a finite gradient at v = 0 too."""
    away = jnp.max(jnp.abs(v)) > TINY
    ray = jnp.where(away, v, TINY)
    return gauge(constraint, x, centre, ray, at_zero=is_centred(constraint, ROOM)) / INSIDE


def alpha(constraint: AbstractConstraint, x: Float[Array, "context"], output: Vector) -> Vector:
    """The output, or where its ray leaves the set."""
    centre = centre_of(constraint, x)
    v = output - centre
    return centre + v / jnp.maximum(_gauge(constraint, x, centre, v), 1.0)


def radial(constraint: AbstractConstraint, x: Float[Array, "context"], output: Vector) -> tuple[Vector, Scalar]:
    """The squashed output, and log|det| = log tanh'(γ) + (d-1) log(tanh(γ)/γ)."""
    centre = centre_of(constraint, x)
    v = output - centre
    size = _gauge(constraint, x, centre, v)
    ratio = jnp.tanh(size) / size
    slope = 2 * (math.log(2.0) - size - jax.nn.softplus(-2 * size))  # log(1 - tanh²), without cancellation
    return centre + INSIDE * ratio * v, slope + (len(v) - 1) * jnp.log(ratio) + len(v) * math.log(INSIDE)


def alpha_log_density(
    constraint: AbstractConstraint, x: Float[Array, "context"], output: Vector, mean: Vector, log_std: Vector
) -> Scalar:
    """Log-density of an α-projected Gaussian: its own inside the set; on the boundary what the ray beyond it gathers,

        log ∫_ρ^∞ (r/ρ)^{d-1} N(c + r u; mean, std²) dr,

    by the trapezium rule over where the Gaussian is not negligible.
    """
    centre = centre_of(constraint, x)
    v = output - centre
    size = _gauge(constraint, x, centre, v)
    std = jnp.exp(log_std)

    def log_normal(a: Vector) -> Scalar:
        return -jnp.sum(((a - mean) / std) ** 2 / 2 + log_std) - len(a) * math.log(2 * math.pi) / 2

    length = jnp.sqrt(jnp.sum(v**2) + TINY**2)
    u, edge = v / length, length / jnp.maximum(size, 1.0)
    stiffness = jnp.sum((u / std) ** 2)
    middle = jnp.sum(u * (mean - centre) / std**2) / stiffness
    width = 8 / jnp.sqrt(stiffness)
    start = lax.stop_gradient(jnp.maximum(edge, middle - width))
    stop = lax.stop_gradient(jnp.maximum(edge, middle) + width)
    grid = jnp.linspace(0.0, 1.0, NODES)
    r = start + (stop - start) * grid
    weight = jnp.where((grid == 0) | (grid == 1), 0.5, 1.0) * (stop - start) / (NODES - 1)
    logs = jax.vmap(lambda r: log_normal(centre + r * u))(r) + (len(v) - 1) * jnp.log(r / edge) + jnp.log(weight)
    return jnp.where(size > 1, jax.nn.logsumexp(logs), log_normal(output))
