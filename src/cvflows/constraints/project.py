"""Projection: the nearest feasible action, argmin ‖y - a‖² subject to y ∈ C(x), in batch, always feasible.

Which solver runs follows from the set's structure; whatever it returns, `land` brings inside the set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints import interior, multipliers, search
from cvflows.constraints.base import TOLERANCE, AbstractConstraint, in_batch
from cvflows.constraints.columns import ColumnSet, in_chunks
from cvflows.constraints.outcome import Outcome, Projection
from cvflows.constraints.shapes import Codes, Columns, Contexts, Flags, Rows, Scalars
from cvflows.constraints.structure import Affine, Radial, Separable, Total, as_separable
from cvflows.constraints.union import Union, own_context

CERTIFIED = 1e-3
"""A projection counts as exact when a dual bound shows it at most this much further than the optimum."""


@partial(jax.jit, static_argnums=0)
def project_samples(constraint: AbstractConstraint, x: Float[Array, "... _"], a: Float[Array, "... dim"]) -> Projection:
    """Nearest feasible action of every sample."""

    def solve(x: Float[Array, "n _"], a: Float[Array, "n dim"]) -> Projection:
        action, outcome = in_chunks(partial(project_columns, constraint), x.T, a.T, iterative=is_iterative(constraint))
        return Projection(action.T, outcome, jnp.sqrt(jnp.sum((action.T - a) ** 2, axis=1)))

    return in_batch(solve, x, a)


@partial(jax.jit, static_argnums=0)
def project_actions(
    constraint: AbstractConstraint, x: Float[Array, "... _"], a: Float[Array, "... dim"]
) -> Float[Array, "... dim"]:
    """The actions alone: what certifies them is then not computed."""
    return project_samples(constraint, x, a).action


def is_iterative(constraint: AbstractConstraint) -> bool:
    """Whether the set needs an interior-point or search method, whose working set should stay in cache."""
    if isinstance(constraint, Union):
        return any(is_iterative(part) for part in constraint.parts)
    structure = jax.eval_shape(constraint.structure, jnp.zeros(constraint.context_dim))
    match structure:
        case Separable(rows=rows, centred=centred):
            return len(rows) > (2 if centred else 1)
        case Affine(offset=offset):
            return bool(offset.shape[0] > 1)
        case Radial() | Total():
            return False
    return True


def project_columns(constraint: AbstractConstraint, x: Contexts, a: Columns) -> tuple[Columns, Codes]:
    """Nearest feasible action and outcome, in columns."""
    if isinstance(constraint, Union):
        parts = [(part, *project_columns(part, own_context(part, x), a)) for part in constraint.parts]
        return best_of_parts(x, parts, lambda y: jnp.sum((y - a) ** 2, axis=0))
    here = ColumnSet.at(constraint, x)
    match structure := as_separable(here.structure):
        case Separable() if not is_iterative(constraint):
            y, anchor, solved = _project_separable(here, structure, a)
        case Radial(inner=inner, outer=outer):
            thickness = min(4e-6, (outer - inner) / (2 * outer))  # rounding must not carry the point out again
            y = multipliers.solve_radial(inner * (1 + thickness), outer * (1 - thickness), a)
            anchor, solved = here.centre, jnp.full(a.shape[1], Outcome.EXACT)
        case Total(total=total):
            y, anchor = (multipliers.solve_total(total, start, here.low, here.high) for start in (a, here.centre))
            solved = jnp.full(a.shape[1], Outcome.EXACT)
        case _ if constraint.convex:
            y, anchor, solved = _project_convex(here, a)
        case _:
            y, anchor, solved = _project_any(here, a)
    landed, outcome = land(here, y, anchor, solved)
    inside = jnp.all(here.rows(a) <= _limit(here, anchor), axis=0) & jnp.all((a >= here.low) & (a <= here.high), axis=0)
    return jnp.where(inside[None], a, landed), jnp.where(inside, Outcome.EXACT, outcome).astype(jnp.int32)


def best_of_parts(
    x: Contexts, parts: list[tuple[AbstractConstraint, Columns, Codes]], cost: Callable[[Columns], Scalars]
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
    chord = jnp.where(start > aim, (aim - end) / jnp.maximum(start - end, 1e-30), 1.0)
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


def _project_separable(here: ColumnSet, set_: Separable, a: Columns) -> tuple[Columns, Columns, Codes]:
    anchor = multipliers.separable_centre(set_, here.low, here.high)
    y, prices = multipliers.solve_separable(*lax.stop_gradient((set_, a, here.low, here.high, anchor)), weight=1.0)
    y = multipliers.attach_gradient(set_, y, prices, a, here.low, here.high)
    return y, anchor, jnp.full(a.shape[1], Outcome.EXACT)


def _project_convex(here: ColumnSet, a: Columns) -> tuple[Columns, Columns, Codes]:
    frozen, target = lax.stop_gradient((here, a))
    anchor = frozen.find_anchor()
    problem = nearest_to(target, frozen)
    found, excess = solve_certified(frozen, problem, anchor, lambda found: _excess(frozen, found, target))
    outcome = jnp.where(excess <= CERTIFIED, Outcome.EXACT, Outcome.APPROXIMATE)
    return here.attach_gradient(found, a), anchor, outcome


def _project_any(here: ColumnSet, a: Columns) -> tuple[Columns, Columns, Codes]:
    frozen, target = lax.stop_gradient((here, a))
    anchor = search.search(frozen, nearest_to(target, frozen))
    return search.attach_gradient(here, anchor, a), anchor, jnp.full(a.shape[1], Outcome.APPROXIMATE)


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
