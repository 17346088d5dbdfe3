"""What every learner shares: the problem it faces, its settings and its data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from cvflows.agents.networks import Sizes, apply
from cvflows.constraints.base import AbstractConstraint

Observations = Float[Array, "batch observation"]
Latents = Float[Array, "batch action"]
Contexts = Float[Array, "batch context"]
Scalars = Float[Array, " batch"]
Critics = Float[Array, "critics parameters"]
Noise = Float[Array, "2 batch action"]
Metrics = dict[str, Array]


@dataclass(frozen=True)
class Settings:
    """Numbers of a learner.

    `learning_rate` falls linearly to `rate_left` of it in that many `updates`. `reward_scale` multiplies rewards before
    learning. `target_entropy` is what -E[log π] is held at, None: -d. `noise` and `target_noise` are in units of the
    latent's reach: 1 for a box, 3 standard deviations for a normal base. `frank_wolfe_rate` is how far NFW's actor is
    drawn to the best corner.
    """

    discount: float = 0.99
    tau: float = 0.005
    learning_rate: float = 3e-4
    rate_left: float = 1.0
    updates: int = 1_000_000
    hidden: tuple[int, ...] = (256, 256)
    batch: int = 256
    reward_scale: float = 1.0
    target_entropy: float | None = None
    noise: float = 0.1
    target_noise: float = 0.2
    policy_delay: int = 2
    frank_wolfe_rate: float = 0.01

    def adam(self) -> optax.GradientTransformation:
        """The optimiser of every network."""
        if self.rate_left == 1:
            return optax.adam(self.learning_rate)
        last = self.rate_left * self.learning_rate
        return optax.adam(optax.linear_schedule(self.learning_rate, last, self.updates))


class Problem(NamedTuple):
    """Sizes, the allowed actions, and how a context is read from an observation (last axis, JAX in, JAX out)."""

    observation_dim: int
    constraint: AbstractConstraint
    read: Callable[[Any], Any]

    @property
    def action_dim(self) -> int:
        return self.constraint.action_dim

    def actor_sizes(self, hidden: tuple[int, ...], outputs: int) -> Sizes:
        """Layers of an actor."""
        return (self.observation_dim, *hidden, outputs)

    def critic_sizes(self, hidden: tuple[int, ...]) -> Sizes:
        """Layers of a critic."""
        return (self.observation_dim + self.action_dim, *hidden, 1)


class Batch(NamedTuple):
    """Transitions; `taken` is what the critic sees of the action."""

    observation: Observations
    taken: Latents
    reward: Scalars
    following: Observations
    terminal: Scalars

    @classmethod
    def unpack(cls, rows: Float[Array, "batch width"], observation_dim: int) -> Batch:
        """From rows (observation, taken, reward, following, terminal)."""
        o, width = observation_dim, rows.shape[1]
        d = width - 2 * o - 2
        return cls(rows[:, :o], rows[:, o : o + d], rows[:, o + d], rows[:, o + d + 1 : width - 1], rows[:, -1])


def values(critics: Critics, sizes: Sizes, observation: Observations, taken: Latents) -> list[Scalars]:
    """Q_i(s, taken) of every critic."""
    both = jnp.concatenate([observation, taken], axis=1)
    return [apply(critics[index], sizes, both)[:, 0] for index in range(critics.shape[0])]


def normal_log_density(noise: Latents, log_std: Latents) -> Scalars:
    """log N(m + e^log_std·noise; m, e^log_std), summed over the entries."""
    return -jnp.sum(noise**2 / 2 + log_std, axis=1) - noise.shape[1] * math.log(2 * math.pi) / 2
