"""How large λ must be: the soft target e^{-λ·CV} itself has mass outside the set, whatever the flow.

For large λ that mass falls like 1/λ, so it is measured where samples can see it, and extrapolated.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.contexts import ContextDistribution
from cvflows.constraints.sample import bounding_box

SEEN = 0.05
"""The leak that is measured by samples."""


def penalty_for_leak(
    constraint: AbstractConstraint, contexts: ContextDistribution, leak: float, *, contexts_tried: int = 64
) -> float:
    """λ such that e^{-λ·CV} has a share `leak` of its mass outside C(x), averaged over contexts."""
    keys = jax.random.split(jax.random.key(0))
    x = contexts.sample(keys[0], contexts_tried)
    low, high = bounding_box(constraint, x)
    around = 0.05 * (high - low) + 1e-6  # a little beyond the set, where the mass outside lies
    low, high = jnp.maximum(low - around, -1 - around), jnp.minimum(high + around, 1 + around)
    draws = jax.random.uniform(keys[1], (contexts_tried, 8192, constraint.action_dim))
    violation = np.asarray(constraint.violation(x[:, None], low[:, None] + draws * (high - low)[:, None]), float)
    inside = (violation <= 0).sum(axis=1)
    seen = inside > 0
    if not seen.any():
        return 1e4  # a set that random actions never hit

    def share(penalty: float) -> float:
        outside = np.where(violation > 0, np.exp(-penalty * violation), 0.0).sum(axis=1)
        return float(np.mean((outside / (outside + inside))[seen]))

    lowest, highest = 0.0, 7.0  # powers of ten
    for _ in range(40):
        middle = (lowest + highest) / 2
        lowest, highest = (middle, highest) if share(10**middle) > SEEN else (lowest, middle)
    return float(10**lowest * SEEN / leak)
