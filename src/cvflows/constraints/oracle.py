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
from cvflows.constraints.search import search
from cvflows.constraints.shapes import Columns, Contexts
from cvflows.constraints.structure import Radial, Separable, Total, as_separable

STEP = 10.0
FAR = 300.0
"""How far along the direction to project from: exact for shells and sums but for ties, which it settles."""


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
            y = solve_convex(here, _furthest(here, c, anchor), anchor).z
        case _:
            y = anchor = search(here, _furthest(here, c, jnp.clip(c, here.low, here.high)))
    y = land(here, y, anchor, jnp.full(c.shape[1], Outcome.EXACT))[0]
    return y if isinstance(structure, Separable) else _improve(constraint, x, c, y)


def _improve(constraint: AbstractConstraint, x: Contexts, c: Columns, y: Columns) -> Columns:
    """A proximal step, which cannot lose on a convex set and mends the rare samples where Newton's method stalled."""
    further = project_columns(constraint, x, y + STEP * c)[0]
    better = jnp.sum(c * (further - y), axis=0, keepdims=True) > 0
    return jnp.where(better, further, y)


def _furthest(here: ColumnSet, c: Columns, near: Columns) -> interior.Problem:
    """minimise -c·y, with a trace of ‖y - near‖² to settle ties."""
    return interior.Problem(jnp.full_like(c, 1e-4), near, -c, here.low, here.high)
