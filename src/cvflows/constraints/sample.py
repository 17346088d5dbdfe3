"""Feasible actions, uniform on C(x): rejection from a box around the set."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from cvflows.constraints.base import AbstractConstraint


class FeasibleSamples(NamedTuple):
    """`actions` (contexts, tries, dim), which were `accepted`, and log of each set's estimated volume."""

    actions: Float[Array, "contexts tries dim"]
    accepted: np.ndarray
    log_volume: np.ndarray


def rejection_samples(
    constraint: AbstractConstraint, x: Float[Array, "contexts _"], key: PRNGKeyArray, *, tries: int = 8192
) -> FeasibleSamples:
    """Uniform actions within the furthest the set reaches along each axis, kept where feasible.

    The box is exact: its faces are the set's own extremes, found by the linear maximiser.
    """
    dim, count = constraint.action_dim, len(x)
    axes = jnp.eye(dim)
    high = constraint.maximise(x[:, None], axes[None])[:, jnp.arange(dim), jnp.arange(dim)]
    low = constraint.maximise(x[:, None], -axes[None])[:, jnp.arange(dim), jnp.arange(dim)]
    span = (high - low) * (1 + 1e-5) + 1e-6
    actions = low[:, None] + jax.random.uniform(key, (count, tries, dim)) * span[:, None]
    accepted = np.asarray(constraint.contains(x[:, None], actions))
    share = accepted.mean(axis=1)
    volume = np.log(np.maximum(share, 0.5 / tries)) + np.log(np.asarray(span, float)).sum(axis=1)
    return FeasibleSamples(actions, accepted, volume)
