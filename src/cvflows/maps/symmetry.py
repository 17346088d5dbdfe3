"""Mirror symmetries of a set, found from its rows: they halve what a map has to learn, entry by entry."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint, all_rows
from cvflows.constraints.contexts import ContextDistribution

Context = Float[Array, "context"]
PROBES = 256


@dataclass(frozen=True)
class Symmetry:
    """Sign flips that leave the rows unchanged.

    `even`: per action entry, whether C(x) is its own mirror image. `partner`: per action entry, the context entry that
    has to flip with it (as the speed does with the torque when power is limited), or -1. `blind`: per context entry,
    whether its sign does not matter, alone or together with its partner's.
    """

    even: tuple[bool, ...]
    partner: tuple[int, ...]
    blind: tuple[bool, ...]

    def canonical(self, x: Context) -> tuple[Context, Float[Array, "dim"]]:
        """The context with irrelevant signs dropped, and the signs ±1 to give its actions back."""
        partner = np.asarray(self.partner)
        paired = partner >= 0
        signs = jnp.ones(len(partner))
        if paired.any():
            signs = jnp.where(paired, jnp.where(x[np.maximum(partner, 0)] < 0, -1.0, 1.0), 1.0)
        return jnp.where(np.asarray(self.blind, bool), jnp.abs(x), x), signs


def find_symmetry(constraint: AbstractConstraint, contexts: ContextDistribution) -> Symmetry:
    """Every single flip, and every pair of a context entry and an action entry, tried on random samples."""
    keys = jax.random.split(jax.random.key(0))
    x = np.asarray(contexts.sample(keys[0], PROBES))
    a = np.asarray(jax.random.uniform(keys[1], (PROBES, constraint.action_dim), minval=-1.0, maxval=1.0))
    rows = jax.jit(jax.vmap(lambda x, a: jnp.sort(all_rows(constraint, x, a))))
    reference = np.asarray(rows(x, a))
    slack = 1e-5 * (1 + np.abs(reference))

    def unchanged(*, entry: int | None = None, context: int | None = None) -> bool:
        flipped = x.copy(), a.copy()
        if context is not None:
            flipped[0][:, context] *= -1
        if entry is not None:
            flipped[1][:, entry] *= -1
        return bool(np.all(np.abs(np.asarray(rows(*flipped)) - reference) <= slack))

    sizes = range(constraint.action_dim), range(constraint.context_dim)
    even = tuple(unchanged(entry=i) for i in sizes[0])
    blind = [unchanged(context=k) for k in sizes[1]]
    partner = [-1] * constraint.action_dim
    for i in sizes[0]:
        if even[i]:
            continue
        partner[i] = next((k for k in sizes[1] if not blind[k] and unchanged(entry=i, context=k)), -1)
        if partner[i] >= 0:
            blind[partner[i]] = True
    return Symmetry(even, tuple(partner), tuple(blind))
