"""Non-convex sets: many starts, each restored to feasibility and then moved towards the action. In columns."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints import interior
from cvflows.constraints.arrays import Columns
from cvflows.constraints.columns import INSIDE, ColumnSet

POOL = 128
"""Points spread over the box, where a feasible start is looked for."""
STARTS = 8
DESCENTS = 16


def search(here: ColumnSet, problem: interior.Problem) -> Columns:
    """The best of the local optima found; the least-violating point where none is feasible."""
    target = problem.target
    best = _best(here, problem, _pool(here, problem))
    clipped = jnp.clip(target, here.low, here.high)
    spread = jnp.asarray(_spread(STARTS - 3, len(target)), target.dtype)[:, :, None] * 0.5
    starts = [clipped, best, jnp.clip(here.centre, here.low, here.high), *(clipped + shift for shift in spread)]
    many, problems = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * len(starts), axis=-1), (here, problem))
    y = many.restore(jnp.concatenate(starts, axis=-1), steps=20)
    y = lax.fori_loop(0, DESCENTS, lambda _, y: _descend(many, problems, y), y)
    found = jnp.moveaxis(y.reshape(len(target), len(starts), -1), 1, 0)
    return _best(here, problem, jnp.concatenate([best[None], found]))


def _pool(here: ColumnSet, problem: interior.Problem) -> Float[Array, "pool dim batch"]:
    """Points spread over the bounds, and the restored least-violating one among them."""
    unit = jnp.asarray(_spread(POOL, len(here.low)), here.low.dtype)[:, :, None] / 2 + 0.5
    points = here.low[None] + unit * (here.high - here.low)[None]
    near = _best(here, problem, points)
    return jnp.concatenate([points, near[None], here.restore(near, steps=20)[None], here.centre[None]])


def _best(here: ColumnSet, problem: interior.Problem, candidates: Float[Array, "count dim batch"]) -> Columns:
    """The feasible candidate of least value; the one whose worst row is least when none is feasible."""
    worst = jax.vmap(lambda y: jnp.max(here.rows(y), axis=0))(candidates)
    worst = jnp.where(jnp.isnan(worst), jnp.inf, worst)
    score = jnp.where(worst <= 0, jax.vmap(problem.value)(candidates), 1e9 * (1 + worst))
    index = jnp.argmin(score, axis=0)
    return jnp.take_along_axis(candidates, index[None, None], axis=0)[0]


def _descend(here: ColumnSet, problem: interior.Problem, y: Columns) -> Columns:
    """One step to the optimum over the rows linearised at `y`, shortened until it is feasible and better."""
    slope = interior.jacobian(here.rows, y)
    offset = here.rows(y) - jnp.sum(slope * y[None], axis=1) + INSIDE
    goal = interior.solve_flat(problem, interior.Flat(offset, slope), y, iterations=12).z
    lengths = (1.0, 0.5, 0.2, 0.05)
    tried = jax.vmap(lambda length: here.restore(y + length * (goal - y), steps=4))(jnp.asarray(lengths, y.dtype))
    return _best(here, problem, jnp.concatenate([y[None], tried]))


def attach_gradient(here: ColumnSet, y: Columns, a: Columns) -> Columns:
    """`y` with the projection's derivative, from multipliers fitted to the rows that are active at `y`."""
    y = lax.stop_gradient(y)
    frozen: ColumnSet = lax.stop_gradient(here)
    slope = interior.jacobian(frozen.rows, y)
    active = frozen.rows(y) > -1e-3
    multiplier = interior.fit_multipliers(slope, active, lax.stop_gradient(a) - y)
    floor = 1e-4
    found = interior.Iterate(
        y,
        jnp.full_like(multiplier, floor),
        multiplier,
        jnp.where(y <= frozen.low, 1.0, 0.0),
        jnp.where(y >= frozen.high, 1.0, 0.0),
    )
    room = ColumnSet(here.constraint, here.x, here.low - floor, here.high + floor, here.centre, here.shape)
    return room.attach_gradient(found, a)


def _spread(count: int, dim: int) -> np.ndarray:
    """Fixed points in [-1,1]^dim, evenly spread (additive recurrence of the generalised golden ratio)."""
    ratio = 2.0
    for _ in range(32):
        ratio = (1 + ratio) ** (1 / (dim + 1))
    steps = ratio ** -np.arange(1, dim + 1)
    return 2 * ((0.5 + np.outer(np.arange(1, count + 1), steps)) % 1) - 1
