"""Points that are known to lie inside a set, from its rows *and* its bounds: what a certified map may start from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint, Intersection, Reads, all_rows
from cvflows.constraints.columns import ColumnSet
from cvflows.constraints.contexts import ContextDistribution
from cvflows.constraints.writing import CALLS
from cvflows.errors import ArgumentError

Vector = Float[Array, "dim"]
ROOM = 1e-3
"""How far inside the bounds and rows a centre must lie for rays to start from it."""
PROBES = 256


@lru_cache(maxsize=4096)
def is_centred(constraint: AbstractConstraint, room: float = 0.0) -> bool:
    """Whether, in every context, every row is smallest at the origin, which lies `room` within rows and bounds.

    What depends on the context (bounds of one's own, say) counts as unknown, that is as False.
    """
    if jax.eval_shape(lambda x: constraint.shape(x).origin_room(), jnp.zeros(constraint.context_dim)) is None:
        return False

    def limits(x: Array) -> tuple[Array, ...]:
        return *constraint.bounds(x), *(constraint.shape(x).origin_room() or ())

    known = constant(limits, constraint.context_dim)
    if known is None:
        return False
    low, high, *row_bounds = known
    return bool((low <= -room).all() and (high >= room).all() and all((bound >= room).all() for bound in row_bounds))


def constant(function: Callable[[Array], tuple[Array, ...]], context_dim: int) -> list[np.ndarray] | None:
    """The arrays that `function(x)` returns when they are the same for every finite x; None when they may differ."""
    with jax.ensure_compile_time_eval():
        traced = jax.make_jaxpr(function)(jnp.zeros(context_dim))
        found = _known(traced.jaxpr, traced.consts, [None if context_dim else np.zeros(0, np.float32)])
    known = [value for value in found if value is not None]
    return known if len(known) == len(found) else None


Known = np.ndarray | None
"""A value that does not depend on the context, or None."""


def _known(jaxpr: Jaxpr, constants: Sequence[object], inputs: Sequence[Known]) -> list[Known]:
    """What is known of a trace's outputs: what is computed from known values, and products with zero."""
    values: dict[Var, Known] = dict(zip(jaxpr.constvars, map(np.asarray, constants), strict=True))
    values.update(zip(jaxpr.invars, inputs, strict=True))

    def read(variable: Var | Literal) -> Known:
        return np.asarray(variable.val) if isinstance(variable, Literal) else values[variable]

    for equation in jaxpr.eqns:
        values.update(zip(equation.outvars, _results(equation, list(map(read, equation.invars))), strict=True))
    return list(map(read, jaxpr.outvars))


def _results(equation: JaxprEqn, inputs: list[Known]) -> list[Known]:
    inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
    if equation.primitive.name in CALLS and inner is not None:
        return _known(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs)
    known = [value for value in inputs if value is not None]
    if len(known) == len(inputs):
        found = equation.primitive.bind(*map(jnp.asarray, known), **equation.params)
        return list(map(np.asarray, found if equation.primitive.multiple_results else [found]))
    if equation.primitive.name in ("mul", "dot_general") and any(not value.any() for value in known):
        aval = equation.outvars[0].aval
        return [np.zeros(aval.shape, aval.dtype)] if isinstance(aval, jax.core.ShapedArray) else [None]
    return [None] * len(equation.outvars)


@lru_cache(maxsize=4096)
def is_centre_inside(constraint: AbstractConstraint) -> bool:
    """Whether the set's own `centre` is known to lie well inside in every context."""
    if isinstance(constraint, Reads):
        return is_centre_inside(constraint.part)
    if constraint.holds_centre or is_centred(constraint, ROOM):
        return True
    if isinstance(constraint, Intersection) and all(is_centre_inside(part) for part in constraint.parts):
        centres = [_fixed_centre(part) for part in constraint.parts]
        known = [centre for centre in centres if centre is not None]
        return len(known) == len(centres) and all(np.array_equal(centre, known[0]) for centre in known)

    def worst(x: Array) -> tuple[Array]:
        return (jnp.max(all_rows(constraint, x, constraint.centre(x))),)

    deepest = constant(worst, constraint.context_dim)
    return deepest is not None and bool(deepest[0] <= -ROOM)


def _fixed_centre(constraint: AbstractConstraint) -> np.ndarray | None:
    known = constant(lambda x: (constraint.centre(x),), constraint.context_dim)
    return None if known is None else known[0]


def inner_point(constraint: AbstractConstraint, x: Float[Array, "context"]) -> Vector:
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
    return lax.stop_gradient(ColumnSet.at(constraint, x[:, None]).find_anchor(within_bounds=True, patient=True)[:, 0])


@lru_cache(maxsize=4096)
def _deepest(constraint: AbstractConstraint) -> np.ndarray:
    """The inner point of a set that never changes, found once."""
    with jax.ensure_compile_time_eval():
        return np.asarray(_solve(constraint))


@partial(jax.jit, static_argnums=0)
def _solve(constraint: AbstractConstraint) -> Vector:
    return ColumnSet.at(constraint, jnp.zeros((0, 1))).find_anchor(within_bounds=True, patient=True)[:, 0]


def ray_centre(constraint: AbstractConstraint, x: Float[Array, "context"], anchored: bool) -> tuple[Vector, bool]:
    """Where rays of a star-shaped set start, and whether that is the origin in every context.

    The set's own centre, or, `anchored`, an inner point that is searched for in every context.
    """
    if anchored:
        return inner_point(constraint, x), False
    at_zero = is_centred(constraint, ROOM)
    return (jnp.zeros(constraint.action_dim) if at_zero else constraint.centre(x)), at_zero


def why_not_star_shaped(
    constraint: AbstractConstraint, options: Mapping[str, object], contexts: ContextDistribution | None
) -> str | None:
    """What a set would have to be for every ray from an inner point to leave it once; None where it is."""
    hollow = constraint.shape(jnp.zeros(constraint.context_dim)).shell is not None
    told = contexts is not None and bool(options.get("star_shaped"))
    if not hollow and (constraint.convex or told):
        return None
    return "a convex set, or `star_shaped=True` if every ray from its centre leaves it once"


def is_searched_for(constraint: AbstractConstraint, contexts: ContextDistribution, anchored: bool = False) -> bool:
    """Whether rays start from a point that is searched for: asked for, or the set's own centre is not known to do.

    Samples do not make a centre known: in one context of a thousand it may lie outside.
    """
    if constraint.convex:
        return anchored or not (_searches(constraint) or is_centre_inside(constraint))
    x = contexts.sample(jax.random.key(0), PROBES)
    worst = jax.jit(jax.vmap(lambda x: jnp.max(all_rows(constraint, x, constraint.centre(x)))))(x)
    if float(jnp.max(worst)) > -ROOM:
        raise ArgumentError("constraint", "a `centre` inside the set in every context", np.asarray(x)[worst.argmax()])
    return anchored


def centres_to_try(constraint: AbstractConstraint) -> tuple[dict[str, object], ...]:
    """Options to try in turn: the centre that suits the set, then, where the set searched itself, a better search."""
    return ({}, {"anchored": True}) if constraint.convex and _searches(constraint) else ({},)


def _searches(constraint: AbstractConstraint) -> bool:
    return _searches(constraint.part) if isinstance(constraint, Reads) else constraint.searches_centre
