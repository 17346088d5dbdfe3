"""Probing a map that calls itself certified: many latents in many contexts, judged in float64 from the rows alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from cvflows.constraints.base import TOLERANCE, AbstractConstraint
from cvflows.constraints.columns import ColumnSet
from cvflows.constraints.contexts import ContextDistribution
from cvflows.constraints.judge import judge_of
from cvflows.constraints.project import is_iterative
from cvflows.maps.base import ActionMap, draw_latents, support

CONTEXTS, LATENTS = 48, 64
WIDER = 10.0
"""How much wider than p_S the second half of the contexts is spread."""
THINNEST = 1e-5
"""A set without a point at which every row is below minus this is too thin for float32, and is not judged."""


@dataclass(frozen=True)
class Failure:
    """A latent whose action is not feasible, or not finite: where, and by how much."""

    context: tuple[float, ...]
    latent: tuple[float, ...]
    violation: float
    share: float

    def __str__(self) -> str:
        x, latent = (", ".join(f"{value:.4g}" for value in values) for values in (self.context, self.latent))
        kind = f"its largest row is {self.violation:.3g}" if np.isfinite(self.violation) else "it is not finite"
        return f"an infeasible action at x=({x}), latent ({latent}): {kind} ({self.share:.2%} of the latents tried)"


def find_failure(map_: ActionMap, contexts: ContextDistribution, *, seed: int = 0) -> Failure | None:
    """The worst infeasible action among latents of the base, corners and edges, in contexts of p_S and far beyond."""
    x, latents, actions, log_dets = try_latents(map_, contexts, seed=seed)
    worst = largest_rows(map_.constraint, x[:, None], actions)
    worst = np.where(np.isfinite(np.asarray(log_dets)), worst, np.inf)
    bad = ~(worst <= TOLERANCE)
    failing = np.flatnonzero(bad.any(axis=1))
    if len(failing):  # only then is it worth knowing which sets are empty
        failing = failing[has_inside(map_.constraint, x)[failing]]
    if not len(failing):
        return None
    where = failing[0]
    which = int(np.argmax(np.where(bad[where], np.nan_to_num(worst[where], nan=np.inf), -np.inf)))
    context, latent = (tuple(np.asarray(values, float).tolist()) for values in (x[where], latents[where, which]))
    return Failure(context, latent, float(worst[where, which]), float(bad[failing].sum() / bad.size))


class Tried(NamedTuple):
    """Contexts (contexts, _), latents (contexts, each, dim), and what the map made of them."""

    contexts: Array
    latents: Array
    actions: Array
    log_dets: Array


def try_latents(map_: ActionMap, contexts: ContextDistribution, *, seed: int = 0) -> Tried:
    """The map at `probe_latents` in `probe_contexts`."""
    keys = jax.random.split(jax.random.key(seed), 2)
    x = probe_contexts(contexts, keys[0])
    latents = probe_latents(map_, keys[1], len(x))
    return Tried(x, latents, *push_latents(map_, latents, x))


def probe_contexts(contexts: ContextDistribution, key: Array) -> Array:
    """Contexts of p_S, then as many spread ten times as wide about their mean."""
    if not contexts.size:
        return jnp.zeros((2 * CONTEXTS, 0))
    x = contexts.sample(key, 2 * CONTEXTS)
    middle = jnp.mean(x, axis=0, keepdims=True)
    return jnp.concatenate([x[:CONTEXTS], middle + WIDER * (x[CONTEXTS:] - middle)])


def probe_latents(map_: ActionMap, key: Array, count: int) -> Array:
    """Latents for `count` contexts: drawn and clipped as an agent's are, corners, edges, axes, and the origin."""
    dim, reach = map_.constraint.action_dim, support(map_.base)
    keys = jax.random.split(key, 3)
    drawn = jnp.clip(draw_latents(map_.base, keys[0], count * LATENTS, dim), -reach, reach).reshape(count, LATENTS, dim)
    signs = jax.random.randint(keys[1], (count, LATENTS // 2, dim), -1, 2).astype(drawn.dtype)
    corners, edges = jnp.split(signs, 2, axis=1)
    corners = jnp.where(corners == 0, 1.0, corners) * reach
    edges = jnp.where(edges == 0, drawn[:, : edges.shape[1]], edges * reach)
    axes = jnp.concatenate([jnp.eye(dim), -jnp.eye(dim), jnp.zeros((1, dim))]) * reach
    return jnp.concatenate([drawn, corners, edges, jnp.broadcast_to(axes, (count, *axes.shape))], axis=1)


def largest_rows(constraint: AbstractConstraint, x: Array | np.ndarray, actions: Array | np.ndarray) -> np.ndarray:
    """The largest row of every action, the action box included, computed in float64."""
    batch = np.broadcast_shapes(x.shape[:-1], actions.shape[:-1])
    flat = [np.broadcast_to(np.asarray(table), (*batch, table.shape[-1])) for table in (x, actions)]
    rows = judge_of(constraint).many(*(table.reshape(math.prod(batch), table.shape[-1]) for table in flat))
    return rows.max(axis=1).reshape(batch)


def has_inside(constraint: AbstractConstraint, x: Array) -> np.ndarray:
    """Whether each set has a point well inside, so that float32 can hit it; any point will do for closed forms."""
    if constraint.convex and is_iterative(constraint):
        return depths(constraint, x) >= THINNEST
    found = constraint.project(x, np.zeros((len(x), constraint.action_dim)))
    return largest_rows(constraint, x, found) <= TOLERANCE


def depths(constraint: AbstractConstraint, x: Array) -> np.ndarray:
    """By how much every row is below 0 at the deepest point of each convex set; negative where there is none inside."""
    return -largest_rows(constraint, x, _deepest(constraint, x))


@partial(jax.jit, static_argnums=0)
def _deepest(constraint: AbstractConstraint, x: Array) -> Array:
    return ColumnSet.at(constraint, x.T).least_violating(within_bounds=True, patient=True).T


@eqx.filter_jit
def push_latents(map_: ActionMap, latents: Array, x: Array) -> tuple[Array, Array]:
    """Actions and log-determinants of latents (contexts, each, dim) at contexts (contexts, _)."""
    return jax.vmap(lambda some, x: jax.vmap(lambda latent: map_.forward(latent, x))(some))(latents, x)
