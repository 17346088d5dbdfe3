"""Sets described by one or two multipliers: find them by bisection. All arrays are columns (batch last).

Both problems below minimise weight/2·‖y‖² - a·y over the set: weight 1 projects a, weight 0 maximises a·y.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from cvflows.constraints.arrays import Columns, Scalars
from cvflows.constraints.linalg import solve_positive
from cvflows.constraints.shapes.row import Row

HALVINGS = {1: 30, 2: 26}
"""Bisection steps per multiplier, by how many multipliers are nested."""
SMALLEST = 1e-30


def solve_separable(
    rows: tuple[Row, ...], a: Columns, low: Columns, high: Columns, centre: Columns, weight: float
) -> tuple[Columns, list[Scalars]]:
    """argmin weight/2·‖y‖² - a·y subject to at most two separable rows and low ≤ y ≤ high; with the multipliers.

    `centre` must satisfy the rows strictly. Slater's bound then brackets each multiplier:
    λ_i ≤ (value(centre) - least value) / (-usage_i(centre)).
    """
    free = _respond((), [], a, low, high, weight)
    gap = _objective(centre, a, weight) - _objective(free, a, weight)
    tops = [jnp.minimum(gap / jnp.maximum(-row.usage(centre), SMALLEST), 1e18) for row in rows]

    def solve(known: list[Scalars]) -> tuple[Columns, list[Scalars]]:
        """Best response when the first multipliers are `known` and the others chosen to satisfy their own rows."""
        index = len(known)
        if index == len(rows):
            return _respond(rows, known, a, low, high, weight), known

        def excess(multiplier: Scalars) -> tuple[Scalars, Columns, list[Scalars]]:
            y, multipliers = solve([*known, multiplier])
            return rows[index].usage(y), y, multipliers

        def halve(_: Array, bracket: tuple[Scalars, Scalars]) -> tuple[Scalars, Scalars]:
            below, above = bracket
            middle = (below + above) / 2
            over = excess(middle)[0] > 0
            return jnp.where(over, middle, below), jnp.where(over, above, middle)

        start = (jnp.zeros_like(tops[index]), tops[index])
        below, above = lax.fori_loop(0, HALVINGS[len(rows)], halve, start)
        # A coordinate may switch on between the ends of the last bracket: the point between them that uses the whole
        # bound is optimal as well. The ends are moved apart, or rounding could put both on one side of the jump.
        apart = 4 * float(np.finfo(a.dtype).eps)
        over, outside, _ = excess(below * (1 - apart))
        under, inside, multipliers = excess(above * (1 + apart))
        share = jnp.where(over <= 0, 1.0, jnp.clip(-under / jnp.maximum(over - under, SMALLEST), 0, 1))
        price = jnp.where(over <= 0, 0.0, above)
        return inside + share[None] * (outside - inside), [*known, price, *multipliers[index + 1 :]]

    return solve([])


def attach_gradient(
    rows: tuple[Row, ...], y: Columns, prices: list[Scalars], a: Columns, low: Columns, high: Columns
) -> Columns:
    """`y` unchanged, with the derivative that the implicit function theorem gives the projection of `a`.

    One Newton step on the active rows from the solution: its value is zero, its derivative is the exact one.
    """
    count = len(rows)
    prices, solved = lax.stop_gradient((prices, y))
    if count:
        active = [price > 0 for price in prices]

        def usage(*prices: Scalars) -> list[Scalars]:
            y = _respond(rows, list(prices), a, low, high, 1.0)
            return [row.usage(y) for row in rows]

        def slope(index: int) -> list[Scalars]:
            direction = [jnp.ones_like(p) if i == index else jnp.zeros_like(p) for i, p in enumerate(prices)]
            tangent = jax.jvp(usage, tuple(prices), tuple(direction))[1]
            inactive = jnp.where(active[index], 1e-8, 1.0)
            return [
                jnp.where(active[i] & active[index], -value, 0.0) + (inactive if i == index else 0.0)
                for i, value in enumerate(tangent)
            ]

        matrix = lax.stop_gradient(jnp.stack([jnp.stack(slope(index)) for index in range(count)]))
        change = [value - lax.stop_gradient(value) for value in usage(*prices)]
        step = solve_positive(matrix, jnp.where(jnp.stack(active), jnp.stack(change), 0.0))
        prices = [price + move for price, move in zip(prices, step, strict=True)]
    response = _respond(rows, prices, a, low, high, 1.0)
    return solved + response - lax.stop_gradient(response)


def _respond(
    rows: tuple[Row, ...], prices: list[Scalars], a: Columns, low: Columns, high: Columns, weight: float
) -> Columns:
    """argmin over low ≤ y ≤ high of weight/2·y² - a·y + Σ λ_i row_i(y), coordinate by coordinate."""
    curvature: Columns | float = weight
    threshold = None
    for row, price in zip(rows, prices, strict=True):
        if row.quadratic is not None:
            curvature = curvature + 2 * price[None] * row.quadratic
        if row.linear is not None:
            a = a - price[None] * row.linear
        if row.absolute is not None:
            width = price[None] * row.absolute
            threshold = width if threshold is None else threshold + width
    if threshold is not None:
        a = a - jnp.clip(a, -threshold, threshold)
    if not isinstance(curvature, float) or curvature != 1:
        a = a / jnp.maximum(curvature, SMALLEST)
    return jnp.clip(a, low, high)


def _objective(y: Columns, a: Columns, weight: float) -> Scalars:
    return jnp.sum((weight / 2 * y - a) * y, axis=0)


def solve_radial(inner: float, outer: float, a: Columns) -> Columns:
    """Nearest point of {inner ≤ ‖y‖ ≤ outer} ∩ [-1,1]^d: y = clip(a·s), with log s found by bisection. Exact, global.

    On the sphere the distance falls with a·y, whose maximum over ball ∩ box has this form. A zero entry of `a` may go
    either way at equal distance: it goes up.
    """
    tiny = 1e-12
    a = jnp.where(jnp.abs(a) < tiny, tiny, a)

    def scaled(log_scale: Array) -> Columns:
        return jnp.clip(a * jnp.exp(log_scale)[None], -1, 1)

    def norm(y: Columns) -> Array:
        return jnp.sqrt(jnp.sum(y * y, axis=0))

    start = norm(jnp.clip(a, -1, 1))
    target = jnp.clip(start, inner, outer)
    span = math.log(4 / tiny)
    shrink = start > target

    def halve(_: Array, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        below, above = bracket
        middle = (below + above) / 2
        over = norm(scaled(middle)) > target
        return jnp.where(over, below, middle), jnp.where(over, middle, above)

    zero = jnp.zeros_like(start)
    bracket = (jnp.where(shrink, -span, zero), jnp.where(shrink, zero, span))
    below, above = lax.fori_loop(0, 44, halve, lax.stop_gradient(bracket))
    log_scale = lax.stop_gradient((below + above) / 2)
    value, slope = jax.jvp(lambda s: norm(scaled(s)), (log_scale,), (jnp.ones_like(log_scale),))
    step = (value - target) / jnp.maximum(lax.stop_gradient(slope), 1e-9)
    log_scale = log_scale - jnp.clip(step, -1e-3, 1e-3)  # sharpens the bisection and carries the derivative
    return jnp.where((start == target)[None], jnp.clip(a, -1, 1), scaled(log_scale))


def solve_total(total: Scalars, a: Columns, low: Columns, high: Columns) -> Columns:
    """Nearest point of {Σ y = total} ∩ [low, high]: y = clip(a - λ), with λ of either sign found by bisection."""

    def shares(price: Array) -> Columns:
        return jnp.clip(a - price[None], low, high)

    def halve(_: Array, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        below, above = bracket
        middle = (below + above) / 2
        over = jnp.sum(shares(middle), axis=0) > total
        return jnp.where(over, middle, below), jnp.where(over, above, middle)

    bracket = (jnp.min(a - high, axis=0), jnp.max(a - low, axis=0))
    below, above = lax.fori_loop(0, 34, halve, lax.stop_gradient(bracket))
    price = lax.stop_gradient((below + above) / 2)
    inside = lax.stop_gradient((a - price[None] > low) & (a - price[None] < high))
    free = jnp.maximum(jnp.sum(inside, axis=0), 1)
    price = price + (jnp.sum(shares(price), axis=0) - total) / free
    return shares(price)
