"""Algorithm: how a policy acts and learns, as pure functions of its state. One file per algorithm; see `sac.py`.

An algorithm knows neither environments nor files. `Learner` compiles it and holds its state and its experience.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import optax
from jaxtyping import Array, Float

from cvflows.agents.networks import Perceptron
from cvflows.agents.settings import Settings, Value
from cvflows.constraints.base import AbstractConstraint

Observations = Float[Array, "batch observation"]
Latents = Float[Array, "batch action"]
Contexts = Float[Array, "batch context"]
Scalars = Float[Array, " batch"]
Metrics = dict[str, Array]
State = Any
"""A pytree of arrays: everything that learning changes."""


class Problem(NamedTuple):
    """Sizes, the allowed actions, and how a context is read from an observation (last axis, JAX in, JAX out)."""

    observation_dim: int
    constraint: AbstractConstraint
    read: Callable[[Any], Any]

    @property
    def action_dim(self) -> int:
        return self.constraint.action_dim


class Acted(NamedTuple):
    """Latents, their actions, and how the constraint finds them; a row per observation.

    `largest` is the action's largest row. `asked`, `violation`, `kasaura` and `flowpg` speak of the action asked for,
    before any correction: its largest row, the sum of its positive ones, and whether two looser tolerances of the
    literature would call it forbidden. `rejected` holds, for each observation, latents that were drawn before and
    rejected. Latents are as they were drawn, before any clipping.
    """

    latent: Any
    action: Any
    largest: Any
    asked: Any
    violation: Any
    kasaura: Any
    flowpg: Any
    rejected: Any = None


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


@dataclass(frozen=True)
class Algorithm(abc.ABC):
    """A rule, for one decoder and its settings.

    `steps`: of the run, which schedules are spread over; `environments` that are stepped side by side.
    """

    decoder: Any
    settings: Any
    steps: int = 1_000_000
    environments: int = 1

    Config: ClassVar[type[Settings]]
    presets: ClassVar[Presets] = Presets({}, {}, {})
    side_by_side: ClassVar[int] = 1
    """Environments that a run has unless it says otherwise."""
    independent_noise: ClassVar[bool] = True
    """Whether a policy's density is that of independent draws, so that noise may not be correlated over steps."""

    @property
    @abc.abstractmethod
    def actor(self) -> Perceptron:
        """The network from an observation to what `choose` takes; its parameters are `state.actor`."""

    @abc.abstractmethod
    def init(self, seed: int) -> State:
        """A fresh state."""

    @abc.abstractmethod
    def choose(self, output: Array, frozen: list[Array], observation: Observations, noise: Latents | None) -> Acted:
        """Latents from the actor's `output`, with their actions; exploring where there is standard normal `noise`."""

    @abc.abstractmethod
    def learn(self, state: State, frozen: list[Array], data: Any, draws: Any) -> tuple[State, Metrics]:
        """A state that has learned from `data`, which its experience gave, with random `draws`."""

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator, data: Any) -> Any:
        """Random numbers for `learn`, drawn on the host from a generator that can be saved."""

    @abc.abstractmethod
    def experience(self) -> Any:
        """An empty `Experience` of the kind this algorithm learns from."""

    @classmethod
    def scaled_to(cls, settings: Any, steps: int) -> Any:
        """Settings for a short run on somebody's own environment."""
        return settings

    def prepare(self, state: State, observations: np.ndarray) -> State:
        """The state as learning begins, given the observations (n, o) so far."""
        return state


def adam(learning_rate: float, share_left: float, updates: int) -> optax.GradientTransformation:
    """Adam whose rate falls linearly to `share_left` of it in that many updates."""
    if share_left == 1:
        return optax.adam(learning_rate)
    return optax.adam(optax.linear_schedule(learning_rate, share_left * learning_rate, updates))


def normal_log_density(noise: Latents, log_std: Latents) -> Scalars:
    """log N(m + e^log_std·noise; m, e^log_std), summed over the entries."""
    import jax.numpy as jnp

    return -jnp.sum(noise**2 / 2 + log_std, axis=1) - noise.shape[1] * math.log(2 * math.pi) / 2
