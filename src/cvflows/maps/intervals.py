"""The feasible interval of one action entry when earlier ones are chosen and later ones are zero."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.structure import Row, Separable, as_separable

Vector = Float[Array, "dim"]
Scalar = Float[Array, ""]
KEEP = 1 - 2e-6
"""Share of the remaining room that is used, so that rounding does not spend more than there is."""
LEAST = 1e-9
HALVINGS = 26


def feasible_interval(
    constraint: AbstractConstraint, x: Float[Array, context], chosen: Vector, index: int
) -> tuple[Scalar, Scalar]:
    """[low, high] such that (chosen_<index, t, 0…) is feasible for t in it; `chosen` must be zero from `index` on.

    Closed form for separable rows, bisection for any other set that keeps an action feasible when entries of it are set
    to zero.
    """
    low, high = constraint.bounds(x)
    structure = as_separable(constraint.structure(x))
    if isinstance(structure, Separable):
        ends = [_room(row, chosen, index) for row in structure.rows]
    else:
        ends = [_search(constraint, x, chosen, index)]
    for down, up in ends:
        low = low.at[index].max(-down)
        high = high.at[index].min(up)
    return low[index], high[index]


def _room(row: Row, chosen: Vector, index: int) -> tuple[Scalar, Scalar]:
    """How far entry `index` may go down and up: the root of q t² + p t = room for p = s ± l."""
    kink, slope = (jnp.zeros(()) if field is None else field[index] for field in (row.absolute, row.linear))
    room = jnp.maximum(-row.usage(chosen) * KEEP, LEAST)

    def root(price: Scalar) -> Scalar:
        price = jnp.maximum(price, LEAST)
        if row.quadratic is None:
            return room / price
        return 2 * room / (price + jnp.sqrt(price * price + 4 * row.quadratic[index] * room))

    return root(kink - slope), root(kink + slope)


def _search(
    constraint: AbstractConstraint, x: Float[Array, context], chosen: Vector, index: int
) -> tuple[Scalar, Scalar]:
    """How far entry `index` may go down and up, by bisection on the rows."""

    def reach(sign: float) -> Scalar:
        def halve(_: Array, bracket: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
            inside, outside = bracket
            middle = (inside + outside) / 2
            good = jnp.all(constraint.rows(x, chosen.at[index].set(sign * middle)) <= 0)
            return jnp.where(good, middle, inside), jnp.where(good, outside, middle)

        whole = jnp.all(constraint.rows(x, chosen.at[index].set(sign)) <= 0)
        inside, _ = lax.fori_loop(0, HALVINGS, halve, (jnp.zeros(()), jnp.ones(())))
        return jnp.where(whole, 1.0, jnp.maximum(inside * KEEP, LEAST))

    return reach(-1.0), reach(1.0)
