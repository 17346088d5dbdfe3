"""Rollout: the last steps of every environment, learned from once and then forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cvflows.agents.experience import Experience, Steps, Table


class Trajectories(NamedTuple):
    """Arrays (steps, environments, …) of a rollout, of numpy or JAX; latents as they were drawn, not clipped."""

    observation: Any
    latent: Any
    reward: Any
    next_observation: Any
    terminal: Any
    ended: Any


class Rollout(Experience):
    """`length` steps of every environment; then all of them are due at once."""

    def __init__(self, length: int, environments: int, observation_dim: int, action_dim: int) -> None:
        def empty(*shape: int) -> np.ndarray:
            return np.zeros((length, environments, *shape), np.float32)

        o, d = observation_dim, action_dim
        self.data = Trajectories(empty(o), empty(d), empty(), empty(o), empty(), empty())
        self.filled, self.length = 0, length

    def add(self, steps: Steps) -> None:
        row = (steps.observation, steps.acted.latent, steps.reward, steps.next_observation, steps.terminal, steps.ended)
        for table, values in zip(self.data, row, strict=True):
            table[self.filled] = values
        self.filled += 1

    def due(self, rng: np.random.Generator) -> Trajectories | None:
        if self.filled < self.length:
            return None
        self.filled = 0
        return self.data

    def restart(self) -> None:
        self.filled = 0

    @property
    def warm(self) -> bool:
        return True

    @property
    def learning(self) -> bool:
        return True

    @property
    def at_rest(self) -> bool:
        return self.filled == 0

    @property
    def observations(self) -> np.ndarray:
        return self.data.observation[: self.filled].reshape(-1, self.data.observation.shape[-1])

    @property
    def tables(self) -> dict[str, Table]:
        return {}

    def counts(self) -> dict[str, int]:
        return {}

    def restore(self, counts: Mapping[str, int]) -> None:
        self.filled = 0
