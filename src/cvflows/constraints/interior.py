"""Interior-point methods for small convex problems, batched, in float32. All arrays are columns (batch last).

minimise Σ_k weight_k/2·(z_k - target_k)² + slope_k z_k   subject to   g(z) ≤ 0,  low ≤ z ≤ high
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from cvflows.constraints.arrays import Columns, Matrices, Rows, Scalars, Slopes
from cvflows.constraints.linalg import factorise, solve_factored, solve_positive

SHARPEST = 1e-6
"""Last barrier weight of the curved method in float32, and the width at which kinks are rounded in the end."""
SHARPEST_DOUBLE = 1e-10
"""Last barrier weight in float64: a bound that is hardly pressed on is then missed by 1e-5 instead of 1e-3."""


class Problem(NamedTuple):
    """The objective and the bounds."""

    weight: Columns
    target: Columns
    slope: Columns
    low: Columns
    high: Columns

    def value(self, z: Columns) -> Scalars:
        return jnp.sum(self.weight / 2 * (z - self.target) ** 2 + self.slope * z, axis=0)

    def gradient(self, z: Columns) -> Columns:
        return self.weight * (z - self.target) + self.slope


class Iterate(NamedTuple):
    """Point, slacks and multipliers of the rows, multipliers of the lower and upper bounds."""

    z: Columns
    slack: Rows
    multiplier: Rows
    low_multiplier: Columns
    high_multiplier: Columns


class Curved(NamedTuple):
    """Rows g(width, z) ≤ 0 with their kinks rounded at `width` (see `trace.smoothed`); `kinked` if there are any."""

    rows: Callable[[Scalars, Columns], Rows]
    kinked: bool


class Flat(NamedTuple):
    """Rows offset + normal·z ≤ 0."""

    offset: Rows
    normal: Slopes


def solve_flat(problem: Problem, flat: Flat, start: Columns, *, iterations: int | Array = 12) -> Iterate:
    """Mehrotra's predictor-corrector method, from any start.

    Slacks and multipliers keep a floor of √eps, without which float32 loses the digits that tell feasible from not.
    """
    floor = float(np.finfo(start.dtype).eps) ** 0.5
    span = problem.high - problem.low
    z = jnp.clip(start, problem.low + 0.02 * span, problem.high - 0.02 * span)
    slack = jnp.maximum(-flat.offset - apply(flat.normal, z), 0.1)
    begin = Iterate(z, slack, 0.1 / slack, 0.1 / (z - problem.low), 0.1 / (problem.high - z))

    def advance(state: tuple[Array, Array, Iterate]) -> tuple[Array, Array, Iterate]:
        step, _, at = state
        below, above = at.z - problem.low, problem.high - at.z
        residual = flat.offset + apply(flat.normal, at.z) + at.slack
        dual = problem.gradient(at.z) + weigh(flat.normal, at.multiplier) - at.low_multiplier + at.high_multiplier
        diagonal = problem.weight + at.low_multiplier / below + at.high_multiplier / above
        factor = factorise(gram(flat.normal, at.multiplier / at.slack) + on_diagonal(diagonal))

        def direction(rows: Rows, low: Columns, high: Columns) -> Iterate:
            """Newton direction that changes the complementarity products by `rows`, `low`, `high`."""
            pull = weigh(flat.normal, (rows + at.multiplier * residual) / at.slack)
            move = solve_factored(factor, -dual - pull + low / below - high / above)
            slack = -residual - apply(flat.normal, move)
            return Iterate(
                move,
                slack,
                (rows - at.multiplier * slack) / at.slack,
                (low - at.low_multiplier * move) / below,
                (high + at.high_multiplier * move) / above,
            )

        products = (at.multiplier * at.slack, at.low_multiplier * below, at.high_multiplier * above)
        predicted = direction(*(-product for product in products))
        reach = _reach(at, predicted, below, above)[None]
        after = [
            (at.multiplier + reach * predicted.multiplier) * (at.slack + reach * predicted.slack),
            (at.low_multiplier + reach * predicted.low_multiplier) * (below + reach * predicted.z),
            (at.high_multiplier + reach * predicted.high_multiplier) * (above - reach * predicted.z),
        ]
        gap = jnp.mean(jnp.concatenate(products), axis=0, keepdims=True)
        left = jnp.mean(jnp.concatenate(after), axis=0, keepdims=True)
        aim = gap * jnp.clip(left / jnp.maximum(gap, 1e-30), 0, 1) ** 3
        move = direction(
            aim - products[0] - predicted.slack * predicted.multiplier,
            aim - products[1] - predicted.z * predicted.low_multiplier,
            aim - products[2] + predicted.z * predicted.high_multiplier,
        )
        length = jnp.minimum(1.0, 0.98 * _reach(at, move, below, above))[None]
        following = Iterate(*(old + length * new for old, new in zip(at, move, strict=True)))
        inner = jnp.clip(following.z, problem.low + floor**2 * span, problem.high - floor**2 * span)
        kept = _kept(Iterate(inner, *(jnp.maximum(value, floor) for value in following[1:])), at)
        return step + 1, jnp.max(jnp.abs(kept.z - at.z)), kept

    def is_moving(state: tuple[Array, Array, Iterate]) -> Array:
        return (state[0] < iterations) & (state[1] > SHARPEST)

    start_moving = jnp.asarray(jnp.inf, z.dtype)
    return lax.while_loop(is_moving, advance, (jnp.asarray(0), start_moving, begin))[2]


def solve_curved(problem: Problem, curved: Curved, start: Columns, *, patient: bool | Array = False) -> Iterate:
    """A primal-dual barrier method that stays feasible, from a strictly feasible start.

    The barrier weight and the width of rounded kinks shrink together, by a constant factor per Newton step so that
    each step starts near its goal; the step length is the best of a few along the direction. `patient` shrinks them
    more slowly, for problems with many kinks, where the usual pace loses the path.
    """
    usual, slow = ((0.65, 46), (0.9, 200)) if curved.kinked else ((0.35, 20), (0.65, 50))
    shrink = jnp.where(patient, slow[0], usual[0]).astype(start.dtype)
    double = start.dtype == jnp.float64
    last, more = (SHARPEST_DOUBLE, 1.5) if double else (SHARPEST, 1.0)
    iterations = jnp.where(patient, int(more * slow[1]), int(more * usual[1]))
    span = problem.high - problem.low
    z = jnp.clip(start, problem.low + 1e-3 * span, problem.high - 1e-3 * span)
    first_width = _widest(curved, z)
    rows = -curved.rows(first_width, z)
    begin = Iterate(z, rows, 1 / jnp.maximum(rows, SHARPEST), 1 / (z - problem.low), 1 / (problem.high - z))

    def advance(step: Array, at: Iterate) -> Iterate:
        decay = shrink ** step.astype(z.dtype)
        barrier = jnp.maximum(decay, last)
        width = jnp.maximum(first_width * decay, SHARPEST)
        below, above = at.z - problem.low, problem.high - at.z
        slack = jnp.maximum(-curved.rows(width, at.z), SHARPEST**2)
        slopes, curvature = derivatives(partial(curved.rows, width), at.z, at.multiplier)
        diagonal = problem.weight + at.low_multiplier / below + at.high_multiplier / above
        matrix = gram(slopes, at.multiplier / slack) + on_diagonal(diagonal) + curvature
        pull = problem.gradient(at.z) + weigh(slopes, barrier / slack) - barrier / below + barrier / above
        move = solve_positive(matrix, -pull)
        edge = jnp.max(jnp.concatenate([-move / below, move / above]), axis=0, keepdims=True)
        move = move / jnp.maximum(edge / 0.98, 1.0)

        def merit(length: Float[Array, ""]) -> Scalars:
            point = at.z + length * move
            inside = jnp.concatenate([-curved.rows(width, point), point - problem.low, problem.high - point])
            logs = jnp.sum(jnp.log(jnp.maximum(inside, 1e-30)), axis=0)
            good = jnp.all(inside > 0, axis=0)
            return jnp.where(good, problem.value(point) - barrier * logs, jnp.inf)

        lengths = jnp.asarray([1.0, 0.7, 0.45, 0.25, 0.12, 0.05, 0.015, 0.0], z.dtype)
        merits = jax.vmap(merit)(lengths)
        best = merits == jnp.min(merits, axis=0, keepdims=True)  # argmin cannot be lowered where precisions are mixed
        length = jnp.max(jnp.where(best, lengths[:, None], 0.0), axis=0, keepdims=True)
        following = at.z + length * move
        new_slack = jnp.maximum(-curved.rows(width, following), SHARPEST**2)
        return _kept(
            Iterate(
                following,
                new_slack,
                _dual(at.multiplier, slack, -apply(slopes, length * move), new_slack, barrier),
                _dual(at.low_multiplier, below, length * move, following - problem.low, barrier),
                _dual(at.high_multiplier, above, -length * move, problem.high - following, barrier),
            ),
            at,
        )

    return lax.fori_loop(0, iterations, advance, begin)


def _widest(curved: Curved, z: Columns) -> Scalars:
    """A width at which the rounded rows, which lie above the true ones, still have `z` well inside."""
    sharp = jnp.full(z.shape[1], SHARPEST, z.dtype)
    if not curved.kinked:
        return sharp
    room = jnp.max(curved.rows(sharp, z), axis=0) / 2
    widths = jnp.asarray([SHARPEST, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0], z.dtype)
    worst = jax.vmap(lambda width: jnp.max(curved.rows(jnp.full_like(sharp, width), z), axis=0))(widths)
    return jnp.max(jnp.where(worst <= room[None], widths[:, None], SHARPEST), axis=0)


def _dual(multiplier: Array, slack: Array, change: Array, new_slack: Array, barrier: Array) -> Array:
    """Newton's multiplier, kept within a factor of the barrier's own."""
    step = (barrier - multiplier * change) / slack
    return jnp.clip(step, 0.1 * barrier / new_slack, 10 * barrier / new_slack)


def _kept(new: Iterate, old: Iterate) -> Iterate:
    """`new`, or `old` for the samples where something overflowed."""
    finite = jnp.all(jnp.isfinite(jnp.concatenate(new)), axis=0)[None]
    return Iterate(*(jnp.where(finite, after, before) for after, before in zip(new, old, strict=True)))


def derivatives(rows: Callable[[Columns], Rows], z: Columns, multiplier: Rows) -> tuple[Slopes, Matrices]:
    """Jacobian of the rows and Σ_i ν_i ∇²g_i."""
    return jacobian(rows, z), jacobian(lambda z: jax.vjp(rows, z)[1](multiplier)[0], z)


def fit_multipliers(slopes: Slopes, active: Bool[Array, "rows batch"], pull: Columns) -> Rows:
    """ν ≥ 0 on the active rows with Jᵀν ≈ pull, by least squares.

    Rows that would need ν < 0 are dropped and the others fitted again: of an equality's two rows one is left.
    """

    def fit(active: Bool[Array, "rows batch"]) -> Rows:
        masked = jnp.where(active[:, None], slopes, 0.0)
        normal = jnp.sum(masked[:, None] * masked[None], axis=2)
        scale = jnp.max(normal, axis=(0, 1))[None]
        normal = normal + on_diagonal(jnp.where(active, 1e-7 * scale + 1e-12, 1.0))
        return jnp.maximum(solve_positive(normal, apply(masked, pull)), 0) * active

    return fit(active & (fit(active) > 0))


def jacobian(function: Callable[[Columns], Rows], z: Columns) -> Slopes:
    """Derivative of a batched function whose samples do not interact."""
    basis = on_diagonal(jnp.ones_like(z))
    return jax.vmap(lambda direction: jax.jvp(function, (z,), (direction,))[1], out_axes=1)(basis)


def apply(slopes: Slopes, move: Columns) -> Rows:
    """J·move."""
    return jnp.sum(slopes * move[None], axis=1)


def weigh(slopes: Slopes, weights: Rows) -> Columns:
    """Jᵀ·weights."""
    return jnp.sum(slopes * weights[:, None], axis=0)


def gram(slopes: Slopes, weights: Rows) -> Matrices:
    """Jᵀ·diag(weights)·J."""
    return jnp.sum(slopes[:, :, None] * (slopes * weights[:, None])[:, None], axis=0)


def on_diagonal(values: Columns) -> Matrices:
    """Diagonal matrices."""
    return jnp.eye(len(values), dtype=values.dtype)[:, :, None] * values[None]


def _reach(at: Iterate, move: Iterate, below: Columns, above: Columns) -> Scalars:
    """Largest step in [0, 1] that keeps slacks and multipliers positive."""
    values = jnp.concatenate([*at[1:], below, above])
    changes = jnp.concatenate([*move[1:], move.z, -move.z])
    return 1 / jnp.maximum(jnp.max(-changes / values, axis=0), 1.0)
