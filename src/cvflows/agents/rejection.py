"""Acceptance-rejection: draw until an action is allowed, and learn from those that were not (Hung et al. 2025).

Every rejected action is a step that leads nowhere and costs something, so it is stored as a transition from a state to
itself. How much that cost matters, against the reward, is drawn anew for every episode; the networks are told.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from cvflows.agents.experience import Replay, Schedule, Steps, Table
from cvflows.agents.problem import Acted
from cvflows.constraints.base import TOLERANCE

Act = Callable[[Array, list[Array], Array, Array], Acted]
"""From an actor's parameters, those of a map, observations and noise."""
TOLD = 2
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


def accepting(act: Act, tries: int) -> Callable[..., tuple[Acted, Array, Array]]:
    """`act` with noise for many tries: the first allowed action, all latents (n, tries, d), how many were rejected.

    What is said of the action asked for is said of the first one: it is the policy's own. If none is allowed the last
    one is taken, for projection.
    """

    def first(actor: Array, frozen: list[Array], observation: Array, noise: Array) -> tuple[Acted, Array, Array]:
        n = observation.shape[0]
        candidates = act(actor, frozen, jnp.repeat(observation, tries, axis=0), noise.reshape(n * tries, -1))
        table = jax.tree.map(lambda leaf: leaf.reshape(n, tries, *leaf.shape[1:]), candidates)
        good = table.largest <= TOLERANCE
        rejected = jnp.where(jnp.any(good, axis=1), jnp.argmax(good, axis=1), tries - 1)
        chosen = jax.tree.map(lambda leaf: leaf[jnp.arange(n), rejected], table)
        own = {name: getattr(table, name)[:, 0] for name in ("asked", "violation", "kasaura", "flowpg")}
        return chosen._replace(**own), table.latent, rejected

    return first


class Rejecting(Replay):
    """A replay that also keeps rejected actions, and mixes some of them into every batch."""

    def __init__(
        self, settings: Schedule, environments: int, observation_dim: int, action_dim: int, reach: float = math.inf
    ) -> None:
        super().__init__(settings, environments, observation_dim, action_dim, reach)
        self.rejected = Table(settings.buffer, 2 * observation_dim + action_dim + 2)

    def add(self, steps: Steps) -> None:
        for state, latents in zip(steps.observation, steps.acted.rejected or (), strict=True):
            if len(latents):
                same, never = np.tile(state, (len(latents), 1)), np.zeros((len(latents), 1), np.float32)
                cost = np.full_like(never, -COST * state[-1])
                self.rejected.add(np.concatenate([same, latents, cost, same, never], axis=1))
        super().add(steps)

    def rewards(self, steps: Steps) -> np.ndarray:
        """Rewards and costs as the states' preferences weigh them."""
        reward, cost = steps.observation[:, -TOLD], steps.observation[:, -TOLD + 1]
        return reward * steps.reward - COST * cost * steps.replaced

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        rows = super().sample(rng, count)
        if len(self.rejected):
            part = round(share_of_rejected(self.step) * rows.shape[1])
            rows[:, :part] = self.rejected.sample(rng, (len(rows), part))
        return rows

    @property
    def tables(self) -> dict[str, Table]:
        return {**super().tables, "rejected": self.rejected}
