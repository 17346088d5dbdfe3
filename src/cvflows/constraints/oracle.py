"""The linear maximiser over a set, argmax_{y ∈ C(x)} c·y: the oracle of the Frank-Wolfe method."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints import interior, multipliers
from cvflows.constraints.base import AbstractConstraint, in_batch
from cvflows.constraints.columns import ColumnSet, in_chunks
from cvflows.constraints.outcome import Outcome
from cvflows.constraints.project import is_iterative, land, project_columns, solve_convex
from cvflows.constraints.shapes import Columns, Contexts
from cvflows.constraints.structure import Radial, Separable, Total, as_separable

FAR = 300.0
"""How far along the direction a point is projected from, for sets with no better way."""


@partial(jax.jit, static_argnums=0)
def maximise_samples(
    constraint: AbstractConstraint, x: Float[Array, "... _"], direction: Float[Array, "... dim"]
) -> Float[Array, "... dim"]:
    """The feasible action furthest along each direction; piecewise constant, so its derivative is zero."""

    def solve(x: Float[Array, "n _"], c: Float[Array, "n dim"]) -> Float[Array, "n dim"]:
        return in_chunks(partial(_maximise, constraint), x.T, c.T, iterative=is_iterative(constraint)).T

    return lax.stop_gradient(in_batch(solve, x, direction))


def _maximise(constraint: AbstractConstraint, x: Contexts, direction: Columns) -> Columns:
    here = ColumnSet.at(constraint, x)
    size = jnp.sqrt(jnp.sum(direction**2, axis=0, keepdims=True))
    c = direction / jnp.maximum(size, 1e-30)
    match structure := as_separable(here.structure):
        case Separable() if not is_iterative(constraint):
            anchor = multipliers.separable_centre(structure, here.low, here.high)
            y, _ = multipliers.solve_separable(structure, c, here.low, here.high, anchor, weight=0.0)
            y = jnp.where((size > 0), y, anchor)
        case Radial() | Total():
            return project_columns(constraint, x, c * FAR)[0]
        case _ if constraint.convex:
            anchor = here.find_anchor()
            tiny = jnp.full_like(c, 1e-4)
            y = solve_convex(here, interior.Problem(tiny, anchor, -c, here.low, here.high), anchor).z
        case _:
            return project_columns(constraint, x, c * FAR)[0]
    return land(here, y, anchor, jnp.full(c.shape[1], Outcome.EXACT))[0]
