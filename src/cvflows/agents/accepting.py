"""Acceptance-rejection: draw until an action is allowed, and learn from those that were not (Hung et al. 2025).

Every rejected action is a step that leads nowhere and costs something, so it is stored as a transition from a state to
itself. How much that cost matters, against the reward, is drawn anew for every episode; the networks are told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cvflows.agents.decoding import Acted
from cvflows.agents.replay import Replay
from cvflows.constraints.base import TOLERANCE

PREFERENCES = 2
"""Numbers that say how much the reward and the cost of rejection matter."""
AT_EVALUATION = np.array([0.9, 0.1], np.float32)
COST = 0.2
SHARE, DECAY, PERIOD = 0.2, 0.99, 10_000


def draw_preference(seed: int) -> np.ndarray:
    """Weights of reward and cost, uniform on the simplex."""
    return np.random.default_rng(seed).dirichlet((1.0, 1.0)).astype(np.float32)


def share_of_rejected(step: int) -> float:
    """What part of a batch consists of rejected actions: 0.2, a hundredth less every 10,000 steps."""
    return SHARE * DECAY ** (step // PERIOD)


def accepting(act: Callable[..., Acted], tries: int) -> Callable[..., tuple[Acted, Any, Any]]:
    """`act` with noise for many tries: the first allowed action, all latents (n, tries, d), how many were rejected.

    What is said of the action asked for is said of the first one: it is the policy's own. If none is allowed the last
    one is taken, for projection.
    """

    def first(actor: Any, frozen: Any, observation: Any, noise: Any) -> tuple[Acted, Any, Any]:
        n = observation.shape[0]
        candidates = act(actor, frozen, jnp.repeat(observation, tries, axis=0), noise.reshape(n * tries, -1))
        table = jax.tree.map(lambda leaf: leaf.reshape(n, tries, *leaf.shape[1:]), candidates)
        good = table.largest <= TOLERANCE
        rejected = jnp.where(jnp.any(good, axis=1), jnp.argmax(good, axis=1), tries - 1)
        chosen = jax.tree.map(lambda leaf: leaf[jnp.arange(n), rejected], table)
        own = {name: getattr(table, name)[:, 0] for name in ("asked", "violation", "kasaura", "flowpg")}
        return chosen._replace(**own), table.latent, rejected

    return first


class Rejections:
    """What rejecting adds to a run: two numbers after an observation's `size`, a cost, rejected actions as data."""

    def __init__(self, size: int, replay: Replay) -> None:
        self.size, self.replay = size, replay

    def tell(self, observations: np.ndarray) -> np.ndarray:
        """Observations (n, o) with the preference of evaluations."""
        return np.concatenate([observations, np.tile(AT_EVALUATION, (len(observations), 1))], axis=1)

    def rewards(self, states: np.ndarray, rewards: np.ndarray, projected: np.ndarray) -> np.ndarray:
        """Rewards and costs as the states' preferences weigh them."""
        return states[:, self.size] * rewards - COST * states[:, self.size + 1] * projected

    def keep(self, states: np.ndarray, acted: Acted) -> None:
        """Rejected actions as steps from a state to itself, at a cost."""
        for state, latents in zip(states, acted.rejected, strict=True):
            if len(latents):
                same, never = np.tile(state, (len(latents), 1)), np.zeros((len(latents), 1), np.float32)
                cost = np.full_like(never, -COST * state[-1])
                self.replay.add(np.concatenate([same, latents, cost, same, never], axis=1))

    def mix(self, rows: np.ndarray, rng: np.random.Generator, step: int) -> None:
        """Put rejected actions in place of a share of the rows (batches, batch, width)."""
        if len(self.replay):
            part = round(share_of_rejected(step) * rows.shape[1])
            rows[:, :part] = self.replay.sample(rng, (len(rows), part))
