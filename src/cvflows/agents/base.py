"""Algorithm: how a policy acts and learns, as pure functions of its state. One file per algorithm; see `sac.py`.

An algorithm knows neither environments nor files. `Learner` compiles it and holds its state and its experience.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import optax
from jaxtyping import Array

from cvflows.agents.decoders import Decoder, Frozen
from cvflows.agents.experience import Experience
from cvflows.agents.networks import Perceptron
from cvflows.agents.problem import Acted, Latents, Numbers, Observations
from cvflows.agents.settings import Settings, Value

Metrics = dict[str, Array]


class State(Protocol):
    """A pytree of arrays: everything that learning changes, the actor's parameters among it."""

    @property
    def actor(self) -> Array: ...


ConfigT = TypeVar("ConfigT", bound=Settings)
StateT = TypeVar("StateT", bound=State)
DataT = TypeVar("DataT")


class Presets(NamedTuple):
    """Settings that are known to work: what the paper's table says by family of environments, and what was tuned.

    `steps`: of a whole run, by family. `tuned` changes the paper's values by family, then by task.
    """

    steps: Mapping[str, int]
    paper: Mapping[str, Mapping[str, Value]]
    tuned: Mapping[str, Mapping[str, Value]]

    def find(self, preset: str, task: str, family: str) -> dict[str, Value]:
        """What a preset changes in the defaults, for a task."""
        values = dict(self.paper.get(family, {}))
        if preset == "tuned":
            values |= {**self.tuned.get(family, {}), **self.tuned.get(task, {})}
        return values


class Rhythm(NamedTuple):
    """What a run has unless it says otherwise: environments side by side, steps between evaluations and checkpoints."""

    num_envs: int = 1
    evaluate_every: int = 5_000
    checkpoint_every: int = 10_000


@dataclass(frozen=True)
class Algorithm(abc.ABC, Generic[ConfigT, StateT, DataT]):
    """A rule, for one decoder and its settings, with a state and data of its own types.

    `steps`: of the run, which schedules are spread over; `environments` that are stepped side by side.
    """

    decoder: Decoder
    settings: ConfigT
    steps: int = 1_000_000
    environments: int = 1

    Config: ClassVar[type[Settings]]
    presets: ClassVar[Presets] = Presets({}, {}, {})
    rhythm: ClassVar[Rhythm] = Rhythm()
    independent_noise: ClassVar[bool] = True
    """Whether a policy's density is that of independent draws, so that noise may not be correlated over steps."""

    @property
    @abc.abstractmethod
    def actor(self) -> Perceptron:
        """The network from an observation to what `choose` takes; its parameters are `state.actor`."""

    @abc.abstractmethod
    def init(self, seed: int) -> StateT:
        """A fresh state."""

    @abc.abstractmethod
    def choose(self, output: Array, frozen: Frozen, observation: Observations, noise: Latents | None) -> Acted:
        """Latents from the actor's `output`, with their actions; exploring where there is standard normal `noise`."""

    @abc.abstractmethod
    def learn(self, state: StateT, frozen: Frozen, data: DataT, draws: Numbers) -> tuple[StateT, Metrics]:
        """A state that has learned from `data`, which its experience gave, with random `draws`."""

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator, data: DataT) -> np.ndarray:
        """Random numbers for `learn`, drawn on the host from a generator that can be saved."""

    @abc.abstractmethod
    def experience(self) -> Experience[DataT]:
        """An empty experience of the kind this algorithm learns from."""

    @classmethod
    def scaled_to(cls, settings: ConfigT, steps: int) -> ConfigT:
        """Settings for a short run on somebody's own environment."""
        return settings

    def prepare(self, state: StateT, observations: np.ndarray) -> StateT:
        """The state as learning begins, given the observations (n, o) so far."""
        return state


AnyAlgorithm = Algorithm[Any, Any, Any]


def adam(learning_rate: float, share_left: float, updates: int) -> optax.GradientTransformation:
    """Adam whose rate falls linearly to `share_left` of it in that many updates."""
    if share_left == 1:
        return optax.adam(learning_rate)
    return optax.adam(optax.linear_schedule(learning_rate, share_left * learning_rate, updates))
