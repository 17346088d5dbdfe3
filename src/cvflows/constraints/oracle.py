"""The linear maximiser over a set, argmax_{y ∈ C(x)} c·y: the oracle of the Frank-Wolfe method."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints import interior
from cvflows.constraints.arrays import Codes, Columns, Contexts, Scalars
from cvflows.constraints.batches import in_batch, in_chunks
from cvflows.constraints.columns import AbstractSet, ColumnSet, own_context
from cvflows.constraints.outcome import Maximum, Outcome
from cvflows.constraints.project import CERTIFIED, best_of_parts, is_iterative, land, project_columns, solve_certified
from cvflows.constraints.search import search
from cvflows.constraints.thin import in_double, round_inside, widened

STEP = 10.0
"""Length of the proximal step after the interior-point method."""
FAR = 300.0
"""How far along the direction to project from: exact for shells and sums but for ties, which it settles."""


@partial(jax.jit, static_argnums=0)
def maximum_samples(constraint: AbstractSet, x: Float[Array, "... _"], direction: Float[Array, "... dim"]) -> Maximum:
    """The feasible action furthest along each direction; piecewise constant, so its derivative is zero."""

    def solve(x: Float[Array, "n _"], c: Float[Array, "n dim"]) -> Maximum:
        action, outcome = in_chunks(partial(maximise_columns, constraint), x.T, c.T, iterative=is_iterative(constraint))
        return Maximum(action.T, outcome)

    return lax.stop_gradient(in_batch(solve, x, direction))


@partial(jax.jit, static_argnums=0)
def maximise_samples(
    constraint: AbstractSet, x: Float[Array, "... _"], direction: Float[Array, "... dim"]
) -> Float[Array, "... dim"]:
    """The actions alone."""
    return maximum_samples(constraint, x, direction).action


def maximise_columns(constraint: AbstractSet, x: Contexts, direction: Columns) -> tuple[Columns, Codes]:
    """The furthest feasible action and its outcome, in columns."""
    if constraint.alternatives:
        parts = [(part, *maximise_columns(part, own_context(part, x), direction)) for part in constraint.alternatives]
        return best_of_parts(x, parts, lambda y: -jnp.sum(direction * y, axis=0))
    if direction.dtype == jnp.float32 and (wide := widened(constraint)) is not None:
        return in_double(_maximise_thin, wide, x, unit(direction)[0])
    here = ColumnSet.at(constraint, x)
    return here.shape.maximise(here, direction)


def unit(direction: Columns) -> tuple[Columns, Float[Array, "1 batch"]]:
    """The direction at length one, and its length."""
    size = jnp.sqrt(jnp.sum(direction**2, axis=0, keepdims=True))
    return direction / jnp.maximum(size, 1e-30), size


def project_from_afar(here: ColumnSet, direction: Columns) -> tuple[Columns, Codes]:
    """The projection of a point far along the direction, for sets whose projection is exact and cheap."""
    return project_columns(here.constraint, here.x, unit(direction)[0] * FAR)


def maximise_any(here: ColumnSet, c: Columns) -> tuple[Columns, Codes]:
    """The best of a search from many starts, and a proximal step."""
    y = anchor = search(here, _furthest(here, c, jnp.clip(c, here.low, here.high)))
    y, outcome = land(here, y, anchor, jnp.full(c.shape[1], Outcome.EXACT))
    return _improve(here, c, y), jnp.maximum(outcome, Outcome.APPROXIMATE)


def maximise_convex(here: ColumnSet, c: Columns) -> tuple[Columns, Codes]:
    """The interior-point optimum and a proximal step, exact where a dual bound certifies it."""
    anchor = here.find_anchor()
    problem = _furthest(here, c, anchor)
    found, _ = solve_certified(here, problem, anchor, lambda found: shortfall(here, found.z, c))
    y, landed = land(here, found.z, anchor, jnp.full(c.shape[1], Outcome.EXACT))
    y = _improve(here, c, y)
    proven = jnp.where(shortfall(here, y, c) <= CERTIFIED, Outcome.EXACT, Outcome.APPROXIMATE)
    return y, jnp.where(landed == Outcome.EMPTY, landed, proven).astype(jnp.int32)


def _maximise_thin(here: ColumnSet, c: Columns) -> tuple[Columns, Codes]:
    """The same in float64, rounded to float32 inside the set."""
    y, outcome = maximise_convex(here, c)
    return round_inside(here, y), outcome


def shortfall(here: ColumnSet, y: Columns, c: Columns) -> Scalars:
    """Bound on max c·y - c·y over the set: weak duality with the rows linearised at `y`."""
    value, slopes = here.linearise(y)
    free = (y > here.low + 1e-4) & (y < here.high - 1e-4)

    def bound(near: float) -> Scalars:
        price = interior.fit_multipliers(slopes * free[None], value > -near, c)
        pull = interior.weigh(slopes, price)
        rest = c - pull
        best = jnp.sum(jnp.maximum(rest * here.low, rest * here.high), axis=0)
        return best - jnp.sum(price * value, axis=0) + jnp.sum((pull - c) * y, axis=0)

    return jnp.min(jnp.stack([bound(near) for near in (1e-4, 1e-3, 1e-2)]), axis=0)


def _improve(here: ColumnSet, c: Columns, y: Columns) -> Columns:
    """A proximal step, which cannot lose on a convex set and mends the samples where Newton's method stalled."""
    further = project_columns(here.constraint, here.x, y + STEP * c)[0]
    better = jnp.sum(c * (further - y), axis=0, keepdims=True) > 0
    return jnp.where(better, further, y)


def _furthest(here: ColumnSet, c: Columns, near: Columns) -> interior.Problem:
    """minimise -c·y, with a trace of ‖y - near‖² to settle ties."""
    return interior.Problem(jnp.full_like(c, 1e-4), near, -c, here.low, here.high)
