"""The feasible interval of one action entry, when earlier ones are chosen and later ones can still be completed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.shapes.exits import Index as Index
from cvflows.maps.inside import is_centred

Vector = Float[Array, "dim"]
Scalar = Float[Array, ""]


def is_sliceable(constraint: AbstractConstraint) -> bool:
    """Whether one interval per entry is known to reach every feasible action.

    True for boxes, for rows that are all smallest at an origin within the bounds, for a single half-space, and for
    shares of a total.
    """
    shape = jax.eval_shape(constraint.shape, jnp.zeros(constraint.context_dim))
    return shape.is_sliceable(centred=is_centred(constraint))


def feasible_interval(
    constraint: AbstractConstraint, x: Float[Array, "context"], chosen: Vector, index: Index
) -> tuple[Scalar, Scalar]:
    """[low, high] such that (chosen_<index, t, rest) is feasible for t in it and some `rest`.

    `chosen` must be zero from `index` on. A closed form where `is_sliceable`; otherwise bisection with `rest` zero,
    for sets that keep an action feasible when entries of it are set to zero.
    """
    return constraint.shape(x).interval(constraint, x, chosen, index)
