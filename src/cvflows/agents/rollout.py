"""Rollout: the last steps of every environment, learned from once and then forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from cvflows.agents.experience import Experience, Steps, Table
from cvflows.agents.problem import Numbers

TableT = TypeVar("TableT", bound=Numbers)


class Trajectories(NamedTuple, Generic[TableT]):
    """Arrays (steps, environments, …) of a rollout, of numpy or JAX; latents as they were drawn, not clipped."""

    observation: TableT
    latent: TableT
    reward: TableT
    next_observation: TableT
    terminal: TableT
    ended: TableT


class Rollout(Experience[Trajectories[np.ndarray]]):
    """`length` steps of every environment; then all of them are due at once.

    `executed`: where an action was replaced, what was executed is kept in place of the latent.
    """

    def __init__(
        self, length: int, environments: int, observation_dim: int, action_dim: int, *, executed: bool = False
    ) -> None:
        def empty(*shape: int) -> np.ndarray:
            return np.zeros((length, environments, *shape), np.float32)

        o, d = observation_dim, action_dim
        self.data = Trajectories(empty(o), empty(d), empty(), empty(o), empty(), empty())
        self.filled, self.length, self.executed = 0, length, executed

    def add(self, steps: Steps) -> None:
        latent = steps.acted.latent
        if self.executed:
            latent = np.where(steps.replaced[:, None], steps.executed, latent)
        row = (steps.observation, latent, steps.reward, steps.next_observation, steps.terminal, steps.ended)
        for table, values in zip(self.data, row, strict=True):
            table[self.filled] = values
        self.filled += 1

    def due(self, rng: np.random.Generator) -> Trajectories[np.ndarray] | None:
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

    def may_pause(self, *, at_end: bool) -> bool:
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
