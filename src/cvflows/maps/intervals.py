"""The feasible interval of one action entry, when earlier ones are chosen and later ones can still be completed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.structure import Row, Separable, Total, as_separable
from cvflows.maps.inside import is_centred
from cvflows.maps.rays import searched_exit

Vector = Float[Array, "dim"]
Scalar = Float[Array, ""]
Index = int | Array
KEEP = 1 - 2e-6
"""Share of the remaining room that is used, so that rounding does not spend more than there is."""
LEAST = 1e-9
NARROWEST = 2.0**-21
"""Width of the narrowest interval: eight units in the last place of an action of size one."""


def is_sliceable(constraint: AbstractConstraint) -> bool:
    """Whether one interval per entry is known to reach every feasible action.

    True for boxes, for rows that are all smallest at an origin within the bounds, for a single half-space, and for
    shares of a total.
    """
    match jax.eval_shape(lambda x: as_separable(constraint.structure(x)), jnp.zeros(constraint.context_dim)):
        case Separable(rows=()):
            return True
        case Separable(rows=(row,)) if _is_half_space(row):
            return True
        case Separable():
            return is_centred(constraint)
        case Total():
            return True
    return False


def feasible_interval(
    constraint: AbstractConstraint, x: Float[Array, context], chosen: Vector, index: Index
) -> tuple[Scalar, Scalar]:
    """[low, high] such that (chosen_<index, t, rest) is feasible for t in it and some `rest`.

    `chosen` must be zero from `index` on. A closed form where `is_sliceable`; otherwise bisection with `rest` zero,
    for sets that keep an action feasible when entries of it are set to zero.
    """
    low, high = constraint.bounds(x)
    later = jnp.arange(len(chosen)) > index
    thin = False  # whether earlier entries can leave no more than a point
    match as_separable(constraint.structure(x)):
        case Separable(rows=rows, centred=centred):
            others = chosen if centred else _cheapest(rows[0], chosen, low, high, later)
            ends = [_room(row, others, index) for row in rows]
            thin = not centred
        case Total(total=total, margin=margin):
            spent, inner = jnp.sum(chosen) - total, margin * 0.998  # clear of the rounding of a sum
            least, most = jnp.sum(jnp.where(later, low, 0)), jnp.sum(jnp.where(later, high, 0))
            ends = [(spent + most + inner, -spent - least + inner)]
            thin = True
        case _:
            axis = jnp.zeros_like(chosen).at[index].set(1.0)
            down, up = (searched_exit(constraint, x, chosen, side, jnp.ones(())) * KEEP for side in (-axis, axis))
            ends = [(down, up)]
    first, last = low[index], high[index]
    for down, up in ends:
        first, last = jnp.maximum(first, -down), jnp.minimum(last, up)
    return _widened(first, last, low[index], high[index]) if thin else (first, last)


def _widened(first: Scalar, last: Scalar, low: Scalar, high: Scalar) -> tuple[Scalar, Scalar]:
    """The interval, at least as wide as float32 can tell, so that the log of its width has a value and a gradient."""
    middle = jnp.clip((first + last) / 2, low + NARROWEST / 2, high - NARROWEST / 2)
    narrow = last - first < NARROWEST
    return jnp.where(narrow, middle - NARROWEST / 2, first), jnp.where(narrow, middle + NARROWEST / 2, last)


def _is_half_space(row: Row) -> bool:
    return row.absolute is None and row.quadratic is None


def _cheapest(row: Row, chosen: Vector, low: Vector, high: Vector, later: Array) -> Vector:
    """`chosen`, completed by the later entries that use a half-space's row least."""
    assert row.linear is not None
    return jnp.where(later, jnp.where(row.linear > 0, low, high), chosen)


def _room(row: Row, others: Vector, index: Index) -> tuple[Scalar, Scalar]:
    """How far entry `index` may go down and up: the root of q t² + p t = room for p = s ± l."""
    kink, slope = (jnp.zeros(()) if field is None else field[index] for field in (row.absolute, row.linear))
    room = -row.usage(others)
    if _is_half_space(row):  # one side is free, and the other end may be below zero
        assert row.linear is not None
        unsure = (1 - KEEP) * (jnp.abs(room) + jnp.abs(row.bound)) + NARROWEST * jnp.sum(jnp.abs(row.linear))
        edge = (room - lax.stop_gradient(unsure)) / jnp.where(slope == 0, 1.0, slope)
        return jnp.where(slope < 0, -edge, jnp.inf), jnp.where(slope > 0, edge, jnp.inf)
    spare = jnp.maximum(room * KEEP, LEAST)

    def root(price: Scalar) -> Scalar:
        price = jnp.maximum(price, LEAST)
        if row.quadratic is None:
            return spare / price
        return 2 * spare / (price + jnp.sqrt(price * price + 4 * row.quadratic[index] * spare))

    return root(kink - slope), root(kink + slope)
