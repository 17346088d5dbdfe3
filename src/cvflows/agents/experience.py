"""Experience: what an algorithm learns from, and when. `Replay` stores transitions and draws from them at random."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from cvflows.agents.problem import Acted
from cvflows.errors import dimension

DataT = TypeVar("DataT")
CHUNK = 10
"""Updates per call where many are due at once."""


class Steps(NamedTuple):
    """One step in every environment, arrays with a row each.

    `observation` and `next_observation` are what the networks saw; `executed` what the environments got; `replaced`
    whether that was not the action asked for. `terminal` ends an episode with no value after it, `ended` in any case.
    """

    observation: np.ndarray
    acted: Acted
    executed: np.ndarray
    replaced: np.ndarray
    reward: np.ndarray
    next_observation: np.ndarray
    terminal: np.ndarray
    ended: np.ndarray


class Experience(abc.ABC, Generic[DataT]):
    """Steps in, data to learn from out."""

    @abc.abstractmethod
    def add(self, steps: Steps) -> None:
        """Keep a step of every environment."""

    @abc.abstractmethod
    def due(self, rng: np.random.Generator) -> DataT | None:
        """The next data to learn from, None when nothing is due."""

    @abc.abstractmethod
    def restart(self) -> None:
        """All environments begin new episodes."""

    @property
    @abc.abstractmethod
    def warm(self) -> bool:
        """Whether the policy acts; before that, actions are random."""

    @property
    @abc.abstractmethod
    def learning(self) -> bool:
        """Whether what is added leads to updates."""

    @abc.abstractmethod
    def may_pause(self, *, at_end: bool) -> bool:
        """Whether a checkpoint may be written now, which breaks off episodes; `at_end` of an episode or not."""

    @property
    @abc.abstractmethod
    def observations(self) -> np.ndarray:
        """Observations (n, o) that are kept."""

    @property
    @abc.abstractmethod
    def tables(self) -> dict[str, Table]:
        """What is stored beside a checkpoint, by name."""

    @abc.abstractmethod
    def counts(self) -> dict[str, int]:
        """Further numbers that a checkpoint must hold."""

    @abc.abstractmethod
    def restore(self, counts: Mapping[str, int]) -> None:
        """Take back what `counts` gave; tables are restored by whoever stored them."""


class Table:
    """Rows of one float32 array, the oldest overwritten when it is full."""

    def __init__(self, capacity: int, width: int) -> None:
        self.rows = np.zeros((dimension("capacity", capacity), dimension("width", width)), np.float32)
        self.added = 0

    def __len__(self) -> int:
        return min(self.added, len(self.rows))

    def add(self, rows: np.ndarray) -> None:
        """Append rows (n, width)."""
        places = (self.added + np.arange(len(rows))) % len(self.rows)
        self.rows[places] = rows
        self.added += len(rows)

    def last(self, count: int) -> np.ndarray:
        """The last rows that were added (≤ count, width), the oldest first; fewer where they were overwritten."""
        return self.rows[np.arange(self.added - min(count, len(self)), self.added) % len(self.rows)]

    def restore(self, rows: np.ndarray, added: int) -> None:
        """Hold what `last` gave when `added` rows had been."""
        self.rows[np.arange(added - len(rows), added) % len(self.rows)] = rows
        self.added = added

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Rows drawn with replacement, shape (*shape, width)."""
        return self.rows[rng.integers(0, len(self), shape)]


class Schedule(Protocol):
    """Settings that say when an algorithm learns from replayed transitions."""

    @property
    def batch(self) -> int: ...

    @property
    def buffer(self) -> int: ...

    @property
    def learning_starts(self) -> int: ...

    @property
    def train_every(self) -> int | None: ...

    @property
    def updates_per_step(self) -> int: ...

    @property
    def critic(self) -> str: ...

    @property
    def n_steps(self) -> int: ...

    @property
    def discount(self) -> float: ...


class Replay(Experience[np.ndarray]):
    """Transitions as rows (observation, taken, reward, next observation, terminal), drawn at random.

    After `learning_starts` steps, every step makes `updates_per_step` updates due; they are taken `train_every` at a
    time, or, where that is None, at the end of the episode. `taken` is what the critic is told of the action: its
    latent, clipped at ±`reach`, or what was executed.
    """

    def __init__(
        self, settings: Schedule, environments: int, observation_dim: int, action_dim: int, reach: float = math.inf
    ) -> None:
        self.settings, self.size, self.reach = settings, observation_dim, reach
        self.table = Table(settings.buffer, 2 * observation_dim + action_dim + 2)
        self.pending, self.step = 0, 0
        self.lengths = np.zeros(environments, np.int64)

    def add(self, steps: Steps) -> None:
        latent = np.clip(steps.acted.latent, -self.reach, self.reach)
        taken = latent if self.settings.critic == "latent" else steps.executed
        reward, terminal = self.rewards(steps)[:, None], steps.terminal[:, None]
        self.table.add(np.concatenate([steps.observation, taken, reward, steps.next_observation, terminal], axis=1))
        self.step += len(taken)
        self.lengths += 1
        finished = int(self.lengths[steps.ended].sum())
        self.lengths[steps.ended] = 0
        if self.learning:
            counted = finished if self.settings.train_every is None else len(taken)
            self.pending += counted * self.settings.updates_per_step

    def rewards(self, steps: Steps) -> np.ndarray:
        """Rewards to learn from."""
        return steps.reward

    def due(self, rng: np.random.Generator) -> np.ndarray | None:
        """Batches (count, batch, width); of one count or two, so that few are compiled."""
        every = self.settings.train_every or CHUNK
        if self.pending >= every:
            count = every
        elif self.settings.train_every is None and self.pending:
            count = 1
        else:
            return None
        self.pending -= count
        return self.sample(rng, count)

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Batches of stored rows."""
        shape = count, self.settings.batch
        if self.settings.n_steps == 1:
            return self.table.sample(rng, shape)
        places = rng.integers(0, len(self.table), count * self.settings.batch)
        return self._summed(places).reshape(*shape, -1)

    def _summed(self, places: np.ndarray) -> np.ndarray:
        """Rows with rewards Σ_k γ^k r_k over up to `n_steps` steps of an episode and the last one's next observation.

        Terminal is 1 - γ^m·(1 - terminal) after m further steps, so that γ·(1 - terminal) still weighs what follows. A
        row continues another where it begins with the observation that the other led to.
        """
        table, o, discount = self.table, self.size, self.settings.discount
        rows = table.rows[places]
        reward, newer = rows.shape[1] - o - 2, (table.added - 1 - places) % len(table.rows)
        going, weight = rows[:, -1] == 0, np.ones(len(rows), np.float32)
        for step in range(1, self.settings.n_steps):
            ahead = step * len(self.lengths)
            following = table.rows[(places + ahead) % len(table.rows)]
            going &= (ahead <= newer) & (following[:, :o] == rows[:, -o - 1 : -1]).all(axis=1)
            weight[going] *= discount
            rows[going, reward] += weight[going] * following[going, reward]
            rows[going, -o - 1 :] = following[going, -o - 1 :]
            going &= following[:, -1] == 0
        rows[:, -1] = 1 - weight * (1 - rows[:, -1])
        return rows

    def restart(self) -> None:
        self.lengths[:] = 0

    @property
    def warm(self) -> bool:
        return self.step >= self.settings.learning_starts

    @property
    def learning(self) -> bool:
        return self.step > self.settings.learning_starts

    def may_pause(self, *, at_end: bool) -> bool:
        return at_end

    @property
    def observations(self) -> np.ndarray:
        return self.table.rows[: len(self.table), : self.size]

    @property
    def tables(self) -> dict[str, Table]:
        return {"replay": self.table}

    def counts(self) -> dict[str, int]:
        return {"due": self.pending, "collected": self.step}

    def restore(self, counts: Mapping[str, int]) -> None:
        self.pending, self.step = counts["due"], counts["collected"]
