"""Projection: the nearest feasible action, argmin ‖y - a‖² subject to y ∈ C(x), in batch, always feasible.

The set's shape chooses the solver; whatever it returns, `land` brings inside the set. The solvers for sets of
which only the rows are known are here too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints import interior, search
from cvflows.constraints.arrays import Codes, Columns, Contexts, Flags, Rows, Scalars
from cvflows.constraints.batches import in_batch, in_chunks
from cvflows.constraints.columns import AbstractSet, ColumnSet, Solved, own_context
from cvflows.constraints.outcome import TOLERANCE, Outcome, Projection
from cvflows.constraints.thin import Widened, in_double, round_inside, widened

CERTIFIED = 1e-3
"""A projection counts as exact when a dual bound shows it at most this much further than the optimum."""


@partial(jax.jit, static_argnums=0)
def project_samples(constraint: AbstractSet, x: Float[Array, "... _"], a: Float[Array, "... dim"]) -> Projection:
    """Nearest feasible action of every sample."""

    def solve(x: Float[Array, "n _"], a: Float[Array, "n dim"]) -> Projection:
        action, outcome = in_chunks(partial(project_columns, constraint), x.T, a.T, iterative=is_iterative(constraint))
        return Projection(action.T, outcome, jnp.sqrt(jnp.sum((action.T - a) ** 2, axis=1)))

    return in_batch(solve, x, a)


@partial(jax.jit, static_argnums=0)
def project_actions(
    constraint: AbstractSet, x: Float[Array, "... _"], a: Float[Array, "... dim"]
) -> Float[Array, "... dim"]:
    """The actions alone: what certifies them is then not computed."""
    return project_samples(constraint, x, a).action


def is_iterative(constraint: AbstractSet) -> bool:
    """Whether the set needs an interior-point or search method, whose working set should stay in cache."""
    if constraint.alternatives:
        return any(is_iterative(part) for part in constraint.alternatives)
    return jax.eval_shape(constraint.shape, jnp.zeros(constraint.context_dim)).iterative


def project_columns(constraint: AbstractSet, x: Contexts, a: Columns) -> tuple[Columns, Codes]:
    """Nearest feasible action and outcome, in columns."""
    if constraint.alternatives:
        parts = [(part, *project_columns(part, own_context(part, x), a)) for part in constraint.alternatives]
        return best_of_parts(x, parts, lambda y: jnp.sum((y - a) ** 2, axis=0))
    if a.dtype == jnp.float32 and (wide := widened(constraint)) is not None:
        return _project_thin(ColumnSet.at(constraint, x), wide, a)
    here = ColumnSet.at(constraint, x)
    y, anchor, solved = here.shape.project(here, a)
    landed, outcome = land(here, y, anchor, solved)
    inside = jnp.all(here.rows(a) <= _limit(here, anchor), axis=0) & jnp.all((a >= here.low) & (a <= here.high), axis=0)
    return jnp.where(inside[None], a, landed), jnp.where(inside, Outcome.EXACT, outcome).astype(jnp.int32)


def best_of_parts(
    x: Contexts, parts: list[tuple[AbstractSet, Columns, Codes]], cost: Callable[[Columns], Scalars]
) -> tuple[Columns, Codes]:
    """The cheapest of what the parts of a union offer, as exact as all that is offered; least-violating if none."""
    offers, codes = jnp.stack([y for _, y, _ in parts]), jnp.stack([code for _, _, code in parts])
    worst = [
        jnp.max(jax.vmap(part.rows, in_axes=-1, out_axes=-1)(own_context(part, x), y), axis=0, initial=-1.0)
        for part, y, _ in parts
    ]
    empty = codes == Outcome.EMPTY
    price = jnp.where(empty, 1e9 * (1 + jnp.maximum(jnp.stack(worst), 0)), jax.vmap(cost)(offers))
    chosen = jnp.argmin(lax.stop_gradient(price), axis=0)
    action = jnp.take_along_axis(offers, chosen[None, None], axis=0)[0]
    own = jnp.take_along_axis(codes, chosen[None], axis=0)[0]
    doubtful = jnp.any(~empty & (codes != Outcome.EXACT), axis=0)
    return action, jnp.where(doubtful, jnp.maximum(own, Outcome.APPROXIMATE), own).astype(jnp.int32)


def _limit(here: ColumnSet, anchor: Columns) -> Rows:
    """What a row may be: zero, or half the tolerance where the set is too thin for anything to be further inside."""
    thin = -here.rows(anchor) < 4 * here.margin(anchor)
    return lax.stop_gradient(jnp.where(thin, TOLERANCE / 2, 0.0))


def land(here: ColumnSet, y: Columns, anchor: Columns, outcome: Codes) -> tuple[Columns, Codes]:
    """`y`, or the first feasible point on its way to `anchor`.

    A point that a solver calls feasible need not be so after recompilation or in float64, so rows are held below a
    small negative margin. Convex rows allow the chord step s = (-margin - g₀)/(g - g₀); others take a bisection.
    """
    anchor = lax.stop_gradient(anchor)
    finite = jnp.all(jnp.isfinite(y), axis=0)
    y = jnp.clip(jnp.where(finite[None], y, anchor), here.low, here.high)
    limit = _limit(here, anchor)
    end, start = here.rows(anchor), here.rows(y)
    aim = jnp.where(limit > 0, limit / 2, -here.margin(lax.stop_gradient(y)))
    less = 1 - float(jnp.finfo(y.dtype).epsneg)  # from an anchor far away, a step to the margin may round to nothing
    chord = jnp.where(start > aim, jnp.minimum((aim - end) / jnp.maximum(start - end, 1e-30), less), 1.0)
    share = jnp.clip(jnp.min(chord, axis=0, initial=1.0), 0, 1)

    def point(share: Scalars) -> Columns:
        return jnp.clip(anchor + lax.stop_gradient(share)[None] * (y - anchor), here.low, here.high)

    def is_feasible(share: Scalars) -> Flags:
        return jnp.all(here.rows(point(share)) <= limit, axis=0)

    def halve(state: tuple[Array, Scalars, Scalars]) -> tuple[Array, Scalars, Scalars]:
        step, below, above = state
        middle = (below + above) / 2
        good = is_feasible(middle)
        return step + 1, jnp.where(good, middle, below), jnp.where(good, above, middle)

    reached = is_feasible(share)
    ends = lax.stop_gradient((jnp.where(reached, share, 0.0), jnp.where(reached, share, 1.0)))
    _, share, _ = lax.while_loop(
        lambda state: (state[0] < 24) & jnp.any(state[1] < state[2]), halve, (jnp.asarray(0), *ends)
    )
    landed = jnp.where((share == 1)[None], y, point(share))
    moved = jnp.sum(jnp.abs(landed - y), axis=0) > CERTIFIED
    outcome = jnp.where(finite & ~moved, outcome, jnp.maximum(outcome, Outcome.FALLBACK))
    return landed, jnp.where(jnp.max(end, axis=0, initial=-1.0) > TOLERANCE, Outcome.EMPTY, outcome)


def project_convex(here: ColumnSet, a: Columns) -> Solved:
    """The nearest point of a convex set by an interior-point method, exact where a dual bound certifies it."""
    found, anchor, outcome = _nearest(*lax.stop_gradient((here, a)))
    return Solved(here.attach_gradient(found, a), anchor, outcome)


def _nearest(here: ColumnSet, a: Columns) -> tuple[interior.Iterate, Columns, Codes]:
    """The interior-point optimum, a point inside, and whether the optimum is certified."""
    anchor = here.find_anchor()
    found, excess = solve_certified(here, nearest_to(a, here), anchor, lambda found: _excess(here, found, a))
    return found, anchor, jnp.where(excess <= CERTIFIED, Outcome.EXACT, Outcome.APPROXIMATE)


def _project_thin(here: ColumnSet, wide: Widened, a: Columns) -> tuple[Columns, Codes]:
    """The projection on a set that an equality makes thin, solved and landed in float64; its gradient in float32."""
    y, outcome, found = in_double(_solve_thin, wide, here.x, a)
    moving = jnp.where(jnp.all(y == a, axis=0)[None], a, here.attach_gradient(found, a))
    return y + (moving - lax.stop_gradient(moving)), outcome


def _solve_thin(here: ColumnSet, a: Columns) -> tuple[Columns, Codes, interior.Iterate]:
    """The projection in float64, rounded to float32 inside the set, its outcome, and the optimum before landing."""
    found, anchor, outcome = _nearest(here, a)
    landed, outcome = land(here, found.z, anchor, outcome)
    inside = jnp.all(here.rows(a) <= TOLERANCE / 2, axis=0) & jnp.all((a >= here.low) & (a <= here.high), axis=0)
    action = jnp.where(inside[None], a, round_inside(here, landed))
    return action, jnp.where(inside, Outcome.EXACT, outcome).astype(jnp.int32), found


@partial(jax.jit, static_argnums=0)
def project_wide(wide: Widened, x: Float[Array, "n _"], a: Float[Array, "n dim"]) -> Projection:
    """The projection of a thin set for contexts in float64, to be called in double precision."""
    action, outcome, _ = in_chunks(lambda x, a: _solve_thin(ColumnSet.at(wide, x), a), x.T, a.T, iterative=True)
    return Projection(action.T, outcome, jnp.sqrt(jnp.sum((action.T - a) ** 2, axis=1)))


def project_any(here: ColumnSet, a: Columns) -> Solved:
    """The nearest point that a search from many starts finds."""
    frozen, target = lax.stop_gradient((here, a))
    anchor = search.search(frozen, nearest_to(target, frozen))
    return Solved(search.attach_gradient(here, anchor, a), anchor, jnp.full(a.shape[1], Outcome.APPROXIMATE))


def nearest_to(a: Columns, here: ColumnSet) -> interior.Problem:
    """minimise ‖y - a‖²/2 within the bounds."""
    return interior.Problem(jnp.ones_like(a), a, jnp.zeros_like(a), here.low, here.high)


def solve_certified(
    here: ColumnSet, problem: interior.Problem, anchor: Columns, excess: Callable[[interior.Iterate], Scalars]
) -> tuple[interior.Iterate, Scalars]:
    """The optimum over a convex set by the interior-point method that fits its rows, and how far off it may be.

    `excess` bounds that. Where the bound is too large for some sample, the batch is solved once more, patiently.
    """

    def solve(patient: Array) -> tuple[interior.Iterate, Scalars]:
        match here.convex_rows():
            case interior.Flat() as flat:
                found = interior.solve_flat(problem, flat, anchor, iterations=jnp.where(patient, 40, 12))
            case interior.Curved() as curved:
                found = interior.solve_curved(problem, curved, anchor, patient=patient)
        doubt = excess(found)
        return found, jnp.where(jnp.isnan(doubt), jnp.inf, doubt)

    def attempt(state: tuple[Array, interior.Iterate, Scalars]) -> tuple[Array, interior.Iterate, Scalars]:
        count, kept, doubt = state
        found, left = solve(count > 0)
        better = (left < doubt) | (count == 0)
        chosen = interior.Iterate(*(jnp.where(better[None], new, old) for new, old in zip(found, kept, strict=True)))
        return count + 1, chosen, jnp.where(better, left, doubt)

    def is_open(state: tuple[Array, interior.Iterate, Scalars]) -> Array:
        return (state[0] == 0) | ((state[0] == 1) & jnp.any(state[2] > CERTIFIED))

    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(solve, jnp.asarray(False)))
    _, found, doubt = lax.while_loop(is_open, attempt, (jnp.asarray(0), *blank))  # one loop: compiled once
    return found, doubt


def _excess(here: ColumnSet, found: interior.Iterate, a: Columns) -> Scalars:
    """Bound on how much further `found` is than the optimum: weak duality with the rows linearised at `found`."""
    value, slopes, _ = here.expand(found.z, found.multiplier)
    free = (found.z > here.low + 1e-4) & (found.z < here.high - 1e-4)
    price = interior.fit_multipliers(slopes * free[None], found.multiplier > found.slack, a - found.z)
    pull = interior.weigh(slopes, price)
    nearest = jnp.clip(a - pull, here.low, here.high)
    offset = jnp.sum(price * value, axis=0) - jnp.sum(pull * found.z, axis=0)
    bound = jnp.sum((nearest - a) ** 2 / 2 + pull * nearest, axis=0) + offset
    return jnp.sqrt(jnp.sum((found.z - a) ** 2, axis=0)) - jnp.sqrt(jnp.maximum(2 * bound, 0))
