"""Feasible actions, uniform on C(x): rejection from a box around the set, or from the slab of an equality; Hamiltonian
Monte Carlo for other thin sets.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from cvflows.constraints.base import AbstractConstraint, all_rows
from cvflows.constraints.contexts import ContextDistribution
from cvflows.constraints.slabs import Slab, find_slab, slab_samples
from cvflows.constraints.union import Union

LEAPS = 12
ENOUGH = 8
"""Accepted samples per context below which rejection gives way to Hamiltonian Monte Carlo."""

Contexts = Float[Array, "contexts _"]


class FeasibleSamples(NamedTuple):
    """`actions` (contexts, tries, dim), which were `accepted`, and log of each set's volume (NaN if not estimated)."""

    actions: Float[Array, "contexts tries dim"]
    accepted: np.ndarray
    log_volume: np.ndarray

    def first(self, count: int) -> FeasibleSamples:
        """At most `count` tries per context, the accepted ones first."""
        order = np.argsort(~self.accepted, axis=1, kind="stable")[:, :count]
        actions = np.take_along_axis(np.asarray(self.actions), order[..., None], axis=1)
        return FeasibleSamples(jnp.asarray(actions), np.take_along_axis(self.accepted, order, axis=1), self.log_volume)


def bounding_box(
    constraint: AbstractConstraint, x: Contexts
) -> tuple[Float[Array, "contexts dim"], Float[Array, "contexts dim"]]:
    """The furthest the set reaches along each axis, both ways: its own extremes, found by the linear maximiser."""
    axes = jnp.eye(constraint.action_dim)
    entry = jnp.arange(constraint.action_dim)
    high = constraint.maximise(x[:, None], axes[None])[:, entry, entry]
    low = constraint.maximise(x[:, None], -axes[None])[:, entry, entry]
    return low, jnp.maximum(high, low)


def feasible_samples(constraint: AbstractConstraint, x: Contexts, key: PRNGKeyArray) -> FeasibleSamples:
    """As `direct_samples`; by Hamiltonian Monte Carlo when the set fills too little of the slab or box around it."""
    found = direct_samples(constraint, x, key)
    if isinstance(constraint, Union) or np.median(found.accepted.sum(axis=1)) >= ENOUGH:
        return found
    return hamiltonian_samples(constraint, x, key)


def direct_samples(constraint: AbstractConstraint, x: Contexts, key: PRNGKeyArray) -> FeasibleSamples:
    """On the slab of an equality where there is one, else in the box around the set: kept where feasible."""
    if isinstance(constraint, Union):
        pieces = [direct_samples(part, x if part.context_dim else x[:, :0], key) for part in constraint.parts]
        return _pooled(constraint, x, pieces, key)
    slab = find_slab(constraint, x)
    return rejection_samples(constraint, x, key) if slab is None else thin_samples(constraint, x, slab, key)


def _pooled(union: Union, x: Contexts, pieces: list[FeasibleSamples], key: PRNGKeyArray) -> FeasibleSamples:
    """Samples of the parts, thinned to one density; where parts overlap, the first of them counts."""
    volumes, kept, densities = [], [], []
    for k, piece in enumerate(pieces):
        inside = piece.accepted.copy()
        for earlier in union.parts[:k]:
            inside &= ~np.asarray(earlier.contains(x[:, None] if earlier.context_dim else None, piece.actions))
        counts = piece.accepted.sum(axis=1)
        volume = np.where(counts > 0, np.exp(piece.log_volume), 0.0)
        volumes.append(volume * inside.sum(axis=1) / np.maximum(counts, 1))
        densities.append(np.where(counts > 0, counts / np.maximum(volume, 1e-300), np.inf))
        kept.append(inside)
    thinnest = np.min(np.stack(densities), axis=0)
    draws = np.split(np.asarray(jax.random.uniform(key, (len(x), sum(k.shape[1] for k in kept)))), _ends(kept), axis=1)
    for inside, density, draw in zip(kept, densities, draws, strict=True):
        inside &= draw < (thinnest / density)[:, None]
    with np.errstate(divide="ignore"):
        log_volume = np.log(np.sum(volumes, axis=0))
    order = np.asarray(jax.random.permutation(key, sum(k.shape[1] for k in kept)))
    actions = jnp.concatenate([piece.actions for piece in pieces], axis=1)[:, order]
    return FeasibleSamples(actions, np.concatenate(kept, axis=1)[:, order], log_volume)


def _ends(parts: list[np.ndarray]) -> list[int]:
    return np.cumsum([part.shape[1] for part in parts])[:-1].tolist()


def thin_samples(
    constraint: AbstractConstraint, x: Contexts, slab: Slab, key: PRNGKeyArray, *, tries: int = 1024
) -> FeasibleSamples:
    """Uniform actions of the slab around the set, kept where feasible."""
    drawn, log_volume = slab_samples(slab, tries, int(jax.random.randint(key, (), 0, 2**31 - 1)))
    actions = jnp.asarray(drawn, jnp.float32)
    accepted = np.asarray(constraint.contains(x[:, None], actions)) & np.isfinite(log_volume)[:, None]
    return FeasibleSamples(actions, accepted, log_volume + np.log(np.maximum(accepted.mean(axis=1), 0.5 / tries)))


def rejection_samples(
    constraint: AbstractConstraint, x: Contexts, key: PRNGKeyArray, *, tries: int = 8192
) -> FeasibleSamples:
    """Uniform actions in the bounding box, kept where feasible."""
    dim, count = constraint.action_dim, len(x)
    low, high = bounding_box(constraint, x)
    span = (high - low) * (1 + 1e-5) + 1e-6
    actions = low[:, None] + jax.random.uniform(key, (count, tries, dim)) * span[:, None]
    accepted = np.asarray(constraint.contains(x[:, None], actions))
    share = accepted.mean(axis=1)
    volume = np.log(np.maximum(share, 0.5 / tries)) + np.log(np.asarray(span, float)).sum(axis=1)
    return FeasibleSamples(actions, accepted, volume)


def hamiltonian_samples(
    constraint: AbstractConstraint,
    x: Contexts,
    key: PRNGKeyArray,
    *,
    chains: int = 8,
    warm_up: int = 300,
    draws: int = 200,
) -> FeasibleSamples:
    """Chains on the density ∝ e^{-λ·CV}, kept where feasible: uniform on the set, whatever λ is.

    λ and the step size are tuned per context while warming up, so that half of the states are feasible.
    """
    keys = jax.random.split(key, 3)
    low, high = bounding_box(constraint, x)
    start = low[:, None] + jax.random.uniform(keys[0], (len(x), chains, constraint.action_dim)) * (high - low)[:, None]
    start = constraint.project(x[:, None], start)
    span = jnp.maximum(high - low, 1e-3)
    actions = _run_chains(constraint, x, start, span, jax.random.split(keys[1], len(x)), warm_up, draws)
    accepted = np.asarray(constraint.contains(x[:, None], actions))
    return FeasibleSamples(actions, accepted, np.full(len(x), np.nan))


def feasible_pairs(
    constraint: AbstractConstraint, contexts: ContextDistribution, key: PRNGKeyArray, count: int, *, each: int = 16
) -> tuple[Float[Array, "count context"], Float[Array, "count dim"]]:
    """`count` pairs of a context from p_S and an action uniform on its set, at most `each` per context."""
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    total = 0
    while total < count:
        key, context_key, sample_key = jax.random.split(key, 3)
        x = contexts.sample(context_key, 1024)
        found = feasible_samples(constraint, x, sample_key).first(each)
        counts = found.accepted.sum(axis=1)
        pairs.append((np.repeat(np.asarray(x), counts, axis=0), np.asarray(found.actions)[found.accepted]))
        total += len(pairs[-1][0])
    x_all, a_all = (np.concatenate(part)[:count] for part in zip(*pairs, strict=True))
    return jnp.asarray(x_all), jnp.asarray(a_all)


class _Tuning(NamedTuple):
    """Step size (as a share of the set's span) and λ."""

    step: Array
    penalty: Array


@partial(jax.jit, static_argnums=(0, 5, 6))
def _run_chains(
    constraint: AbstractConstraint, x: Array, start: Array, span: Array, keys: Array, warm_up: int, draws: int
) -> Array:
    def chains_of(x: Array, start: Array, span: Array, key: Array) -> Array:
        def potential(a: Array) -> Array:
            return jnp.sum(jnp.maximum(all_rows(constraint, x, a), 0))

        slope = jax.grad(potential)

        def move(a: Array, tuning: _Tuning, key: Array) -> tuple[Array, Array]:
            """One Metropolis-corrected trajectory of one chain."""
            momentum_key, length_key, accept_key = jax.random.split(key, 3)
            momentum = jax.random.normal(momentum_key, a.shape)
            step = tuning.step * jax.random.uniform(length_key, (), minval=0.3, maxval=1.0)

            def leap(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
                a, p = state
                p = p - step / 2 * tuning.penalty * span * slope(a)
                a = a + step * span * p
                return a, p - step / 2 * tuning.penalty * span * slope(a)

            end, p = lax.fori_loop(0, LEAPS, leap, (a, momentum))
            gain = tuning.penalty * (potential(a) - potential(end)) + jnp.sum(momentum**2 - p**2) / 2
            accept = jnp.log(jax.random.uniform(accept_key)) < gain
            return jnp.where(accept, end, a), accept

        def advance(state: tuple[Array, _Tuning], item: tuple[Array, Array]) -> tuple[tuple[Array, _Tuning], Array]:
            places, tuning = state
            key, warming = item
            keys = jax.random.split(key, len(places))
            places, accepted = jax.vmap(lambda a, k: move(a, tuning, k))(places, keys)
            inside = jnp.mean(jax.vmap(potential)(places) <= 0)
            grown = _Tuning(
                jnp.clip(tuning.step * jnp.exp(0.1 * (jnp.mean(accepted) - 0.7)), 1e-6, 0.3),
                jnp.clip(tuning.penalty * jnp.exp(0.2 * (0.5 - inside)), 1.0, 1e7),
            )
            tuning = jax.tree.map(lambda new, old: jnp.where(warming, new, old), grown, tuning)
            return (places, tuning), places

        tuning = _Tuning(jnp.asarray(0.1), jnp.asarray(30.0))
        items = jax.random.split(key, warm_up + draws), jnp.arange(warm_up + draws) < warm_up
        _, places = lax.scan(advance, (start, tuning), items)
        return places[warm_up:].reshape(-1, places.shape[-1])

    return jax.vmap(chains_of)(x, start, span, keys)
