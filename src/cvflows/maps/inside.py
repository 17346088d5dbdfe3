"""Points that are known to lie inside a set, from its rows *and* its bounds: what a certified map may start from."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint, Intersection, Reads, all_rows
from cvflows.constraints.columns import ColumnSet
from cvflows.constraints.sets import Tip
from cvflows.constraints.structure import Separable

Vector = Float[Array, "dim"]
ROOM = 1e-3
"""How far inside the bounds and rows a centre must lie for rays to start from it."""


@lru_cache(maxsize=4096)
def is_centred(constraint: AbstractConstraint, room: float = 0.0) -> bool:
    """Whether, in every context, every row is smallest at the origin, which lies `room` within rows and bounds.

    What depends on the context (bounds of one's own, say) counts as unknown, that is as False.
    """
    structure = jax.eval_shape(constraint.structure, jnp.zeros(constraint.context_dim))
    if not isinstance(structure, Separable) or not structure.centred:
        return False

    def limits(x: Array) -> tuple[Any, ...]:
        rows = constraint.structure(x).rows  # type: ignore[union-attr]
        return *constraint.bounds(x), *(row.bound for row in rows)

    known = constant(limits, constraint.context_dim)
    if known is None:
        return False
    low, high, *row_bounds = known
    return bool((low <= -room).all() and (high >= room).all() and all((bound >= room).all() for bound in row_bounds))


def constant(function: Callable[[Array], tuple[Any, ...]], context_dim: int) -> list[np.ndarray] | None:
    """The arrays that `function(x)` returns when they do not depend on x; None when they may."""
    with jax.ensure_compile_time_eval():
        zeros = jnp.zeros(context_dim)
        traced = jax.make_jaxpr(function)(zeros).jaxpr
        needed = {id(variable) for variable in traced.outvars}
        for equation in reversed(traced.eqns):
            if any(id(variable) in needed for variable in equation.outvars):
                needed |= {id(variable) for variable in equation.invars}
        if context_dim and id(traced.invars[0]) in needed:
            return None
        return [np.asarray(value) for value in function(zeros)]


@lru_cache(maxsize=4096)
def is_centre_inside(constraint: AbstractConstraint) -> bool:
    """Whether the set's own `centre` is known to lie well inside in every context."""
    match constraint:
        case Reads(part=part):
            return is_centre_inside(part)
        case Tip():
            return True  # every row is -1 at the origin
    if is_centred(constraint, ROOM):
        return True
    if isinstance(constraint, Intersection) and all(is_centre_inside(part) for part in constraint.parts):
        centres = [_fixed_centre(part) for part in constraint.parts]
        return all(c is not None and np.array_equal(c, centres[0]) for c in centres)  # type: ignore[arg-type]

    def worst(x: Array) -> tuple[Array]:
        return (jnp.max(all_rows(constraint, x, constraint.centre(x))),)

    known = constant(worst, constraint.context_dim)
    return known is not None and bool(known[0] <= -ROOM)


def _fixed_centre(constraint: AbstractConstraint) -> np.ndarray | None:
    known = constant(lambda x: (constraint.centre(x),), constraint.context_dim)
    return None if known is None else known[0]


def inner_point(constraint: AbstractConstraint, x: Float[Array, context]) -> Vector:
    """A point inside C(x) as far as one can be found; constant for derivatives.

    The origin or the set's own centre where it is known to lie inside, else the point whose worst row, those of the
    bounds included, is least.
    """
    if is_centred(constraint, ROOM):
        return jnp.zeros(constraint.action_dim)
    if is_centre_inside(constraint) or not constraint.convex:
        return lax.stop_gradient(constraint.centre(x))
    if constraint.context_dim == 0:
        return jnp.asarray(_deepest(constraint), x.dtype)
    return lax.stop_gradient(ColumnSet.at(constraint, x[:, None]).find_anchor(within_bounds=True)[:, 0])


@lru_cache(maxsize=4096)
def _deepest(constraint: AbstractConstraint) -> np.ndarray:
    """The inner point of a set that never changes, found once."""
    with jax.ensure_compile_time_eval():
        return np.asarray(_solve(constraint))


@partial(jax.jit, static_argnums=0)
def _solve(constraint: AbstractConstraint) -> Vector:
    return ColumnSet.at(constraint, jnp.zeros((0, 1))).find_anchor(within_bounds=True)[:, 0]
