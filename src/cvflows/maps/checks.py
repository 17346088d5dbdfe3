"""What can be known to go wrong before a fit starts: empty sets, NaN, no gradient, a map that does not fit its set."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array

from cvflows.constraints.base import TOLERANCE, AbstractConstraint, all_rows
from cvflows.constraints.contexts import ContextDistribution
from cvflows.constraints.union import Union
from cvflows.errors import ArgumentError, ConstraintFunctionError
from cvflows.maps.base import ActionMap, draw_latents
from cvflows.maps.certify import largest_rows
from cvflows.maps.pieces import warn_if_disconnected

CONTEXTS, ACTIONS = 128, 64


def check_fittable(map_: ActionMap, contexts: ContextDistribution, *, allow_empty: float = 0.0) -> None:
    """Raise an error that says what is wrong with the set or the map, and at which context and action."""
    constraint = map_.constraint
    if contexts.size != constraint.context_dim:
        raise ArgumentError("contexts", f"{constraint.context_dim} entries, the context_dim", contexts.size)
    keys = jax.random.split(jax.random.key(0), 3)
    x = contexts.sample(keys[0], CONTEXTS)
    _check_finite("contexts", np.asarray(x))
    a = jax.random.uniform(keys[1], (CONTEXTS, ACTIONS, constraint.action_dim), minval=-1.0, maxval=1.0)
    rows, slopes = (np.asarray(value) for value in _rows_and_slopes(constraint, x, a))
    for what, bad in (("value", ~np.isfinite(rows)), ("gradient", ~np.isfinite(slopes).all(axis=-1))):
        if bad.any():
            context, action, row = np.argwhere(bad)[0]
            place = _place(x[context], a[context, action])
            raise ConstraintFunctionError(f"row {row} of the constraint has no finite {what} {place}")
    broken = rows > 0
    flat = broken.any(axis=-1) & (np.abs(np.where(broken[..., None], slopes, 0)).max(axis=(-2, -1)) == 0)
    if flat.any() and flat.sum() > 0.5 * broken.any(axis=-1).sum():
        context, action = np.argwhere(flat)[0]
        place = _place(x[context], a[context, action])
        raise ConstraintFunctionError(f"the violation has no gradient, so that nothing can be learned from it, {place}")
    empty = _empty(constraint, x, inside=np.asarray((rows <= 0).all(axis=-1).any(axis=-1)))
    if empty.mean() > allow_empty:
        raise ConstraintFunctionError(
            f"no action is allowed in {empty.mean():.1%} of the contexts, as at x={_shown(x[empty.argmax()])}: "
            "state a wider set or contexts that leave one"
        )
    _check_start(map_, x, keys[2], empty)
    if not map_.certified and not isinstance(constraint, Union):
        warn_if_disconnected(constraint, contexts)


def _rows_and_slopes(constraint: AbstractConstraint, x: Array, a: Array) -> tuple[Array, Array]:
    def both(x: Array, a: Array) -> tuple[Array, Array]:
        return all_rows(constraint, x, a), jax.jacobian(lambda a: all_rows(constraint, x, a))(a)

    return jax.jit(jax.vmap(lambda x, some: jax.vmap(lambda a: both(x, a))(some)))(x, a)


def _empty(constraint: AbstractConstraint, x: Array, inside: np.ndarray) -> np.ndarray:
    """Contexts without a feasible action: none among random ones, and none found by projection."""
    doubtful = np.flatnonzero(~inside)
    empty = np.zeros(len(x), bool)
    if len(doubtful):
        start = np.zeros((len(x), constraint.action_dim), np.float32)
        found = constraint.project(x, start)
        empty[doubtful] = ~np.asarray(constraint.contains(x, found))[doubtful]
    return empty


def _check_start(map_: ActionMap, x: Array, key: Array, empty: np.ndarray) -> None:
    """The unfitted map gives finite actions, feasible ones if it promises so."""
    latents = draw_latents(map_.base, key, len(x), map_.constraint.action_dim)
    actions, log_dets = jax.jit(jax.vmap(map_.forward))(latents, x)
    bad = ~np.isfinite(np.asarray(actions)).all(axis=1) | ~np.isfinite(np.asarray(log_dets))
    if bad.any():
        raise ConstraintFunctionError(f"the map gives no finite action at x={_shown(x[bad.argmax()])}")
    if map_.certified:
        bad = (largest_rows(map_.constraint, x, actions) > TOLERANCE) & ~empty
        if bad.any():
            raise ConstraintFunctionError(
                f"the map calls itself certified and is not: its action is infeasible at x={_shown(x[bad.argmax()])}"
            )


def _check_finite(name: str, values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise ArgumentError(name, "finite numbers", "NaN or infinity")


def _place(x: Array, a: Array) -> str:
    return f"at x={_shown(x)}, a={_shown(a)}"


def _shown(values: Array) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in np.asarray(values)) + ")"
