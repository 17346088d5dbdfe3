"""What algorithms that learn from replayed transitions share: settings, batches, critics, and the scan over batches."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from cvflows.agents.base import Algorithm, Metrics, State, adam
from cvflows.agents.decoders import Frozen
from cvflows.agents.experience import Replay
from cvflows.agents.networks import ACTIVATIONS, Ensemble, Parts, Perceptron
from cvflows.agents.problem import Latents, Numbers, Observations, Scalars
from cvflows.agents.products import PRECISIONS
from cvflows.agents.rejection import Rejecting
from cvflows.agents.settings import LARGEST, Settings, Value, setting
from cvflows.errors import ArgumentError

ROBOT: dict[str, Value] = {
    "n_steps": 3,
    "learning_rate": 1e-3,
    "final_rate": 0.1,
    "critic_norm": True,
    "actor_every": 2,
    "train_every": 2,
    "learning_starts": 5000,
    "precision": "bfloat16",
}
"""What robots that walk are tuned with, whatever the rule."""
FEWEST = 30
"""Observations that a mean and a spread are taken from."""
Noise = Float[Array, "2 batch action"]


@dataclass(frozen=True)
class OffPolicySettings(Settings):
    """Settings that SAC, TD3 and DDPG share."""

    discount: float = setting(0.99, "γ, weight of what follows a step", least=0.0, most=1.0)
    tau: float = setting(0.005, "how much of a network its target takes over at an update", above=0.0, most=1.0)
    learning_rate: float = setting(3e-4, "Adam's, of every network", above=0.0, most=1.0)
    final_rate: float = setting(1.0, "share of the learning rate that is left at the end", above=0.0, most=1.0)
    hidden: tuple[int, ...] = setting((256, 256), "widths of the hidden layers", least=1, most=65_536)
    activation: str = setting("relu", "between the layers", choices=tuple(ACTIVATIONS))
    critic_norm: bool = setting(False, "layer norm in the critics")
    precision: str = setting("float32", "of updates' products between hidden layers", choices=PRECISIONS, later=True)
    batch: int = setting(256, "transitions per update", least=1, most=1_000_000)
    buffer: int = setting(1_000_000, "transitions kept, the oldest dropped", least=1, most=1_000_000_000)
    learning_starts: int = setting(10_000, "random steps before learning", least=0)
    train_every: int | None = setting(1, "steps between updates, as many at once; none: at ends of episodes", least=1)
    n_steps: int = setting(1, "steps whose rewards a critic's target adds up", least=1, most=100, later=True)
    updates_per_step: int = setting(1, "updates for every step", least=1, most=1000)
    standardise: bool = setting(False, "observations relative to mean and spread of the random steps")
    reward_scale: float = setting(1.0, "rewards are multiplied by it for learning", above=0.0, most=1e9)
    noise_correlation: float = setting(0.0, "exploration noise kept from one step to the next", least=0.0, most=1.0)
    critic: str = setting("latent", "what critics are told of an action", choices=("latent", "executed"))
    penalty: float = setting(0.0, "weight of the distance from being allowed in the actor's loss", least=0.0, most=1e9)
    tries: int = setting(1, "actions drawn until one is allowed; rejected ones are learned from", least=1, most=10_000)

    @property
    def random_steps(self) -> int:
        return self.learning_starts

    @property
    def attempts(self) -> int:
        return self.tries

    @property
    def correlation(self) -> float:
        return self.noise_correlation

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.standardise and self.learning_starts < FEWEST:
            raise ArgumentError("learning_starts", f"≥ {FEWEST} steps to standardise by", self.learning_starts)


SettingsT = TypeVar("SettingsT", bound=OffPolicySettings)


StateT = TypeVar("StateT", bound=State)


class Batch(NamedTuple):
    """Transitions; `taken` is what the critic is told of the action."""

    observation: Observations
    taken: Latents
    reward: Scalars
    next_observation: Observations
    terminal: Scalars

    @classmethod
    def unpack(cls, rows: Float[Array, "batch width"], observation_dim: int) -> Batch:
        """From rows (observation, taken, reward, next observation, terminal)."""
        o, width = observation_dim, rows.shape[1]
        d = width - 2 * o - 2
        return cls(rows[:, :o], rows[:, o : o + d], rows[:, o + d], rows[:, o + d + 1 : width - 1], rows[:, -1])


@dataclass(frozen=True)
class OffPolicy(Algorithm[SettingsT, StateT, np.ndarray]):
    """An algorithm whose `update` takes one batch of replayed transitions."""

    @abc.abstractmethod
    def update(
        self, state: StateT, frozen: Frozen, batch: Batch, noise: Noise, *, improve: bool
    ) -> tuple[StateT, Metrics]:
        """One step of the critics on a batch and, with `improve`, of everything else; `noise` is standard normal."""

    @property
    def every(self) -> int:
        """Updates of the critics per update of the actor."""
        return 1

    def improves(self, state: StateT) -> Array | bool:
        """Whether the next update is the actor's too; asked only where `every` is more than 1."""
        return True

    @classmethod
    def scaled_to(cls, settings: SettingsT, steps: int) -> SettingsT:
        """At most a tenth of the steps are random."""
        return settings.changed({"learning_starts": min(settings.learning_starts, max(steps // 10, 1))})

    def learn(self, state: StateT, frozen: Frozen, data: Numbers, draws: Numbers) -> tuple[StateT, Metrics]:
        """An update for every batch of `data` (count, batch, width)."""
        size, rows, noise = self.decoder.problem.observation_dim, jnp.asarray(data), jnp.asarray(draws)
        together = self.every if self._in_turn and len(rows) % self.every == 0 else 1

        def turn(state: StateT, inputs: tuple[Array, Array]) -> tuple[StateT, Metrics]:
            for index, (batch, noise) in enumerate(zip(*inputs, strict=True)):
                update = partial(self.update, frozen=frozen, batch=Batch.unpack(batch, size), noise=noise)
                if together == self.every:
                    state, metrics = update(state, improve=index == 0)
                else:
                    both = (partial(update, improve=True), partial(update, improve=False))
                    state, metrics = jax.lax.cond(self.improves(state), *both, state)
            return state, metrics

        turns = (rows.reshape(-1, together, *rows.shape[1:]), noise.reshape(-1, together, *noise.shape[1:]))
        if len(turns[0]) == 1:
            return turn(state, (turns[0][0], turns[1][0]))
        state, metrics = jax.lax.scan(turn, state, turns)
        return state, jax.tree.map(jnp.mean, metrics)

    @property
    def _in_turn(self) -> bool:
        """Whether every call of `learn` begins with an update of the actor: then whose turn it is need not be asked.

        Asking costs: the state is copied into either branch.
        """
        every = self.settings.train_every
        return every is not None and every % self.every == 0

    def draw(self, rng: np.random.Generator, data: np.ndarray) -> np.ndarray:
        return rng.standard_normal((len(data), 2, data.shape[1], self.decoder.problem.action_dim), np.float32)

    def experience(self) -> Replay:
        kind = Rejecting if self.settings.tries > 1 else Replay
        problem = self.decoder.problem
        return kind(self.settings, self.environments, problem.observation_dim, problem.action_dim, self.decoder.reach)

    @property
    def adam(self) -> optax.GradientTransformation:
        """The optimiser of every network."""
        settings = self.settings
        updates = max(self.steps - settings.learning_starts, 1) * settings.updates_per_step
        return adam(settings.learning_rate, settings.final_rate, min(updates, LARGEST))

    def network(self, outputs: int) -> Perceptron:
        """From an observation."""
        sizes = (self.decoder.problem.observation_dim, *self.settings.hidden, outputs)
        return Perceptron(sizes, self.settings.activation, precision=self.settings.precision)

    def critics(self, count: int) -> Ensemble:
        """From an observation and an action."""
        problem, settings = self.decoder.problem, self.settings
        sizes = (problem.observation_dim + problem.action_dim, *settings.hidden, 1)
        network = Perceptron(sizes, settings.activation, settings.critic_norm, precision=settings.precision)
        return Ensemble(network, count)


def values(
    critics: Ensemble, parameters: Array | list[Parts], observation: Observations, taken: Latents
) -> list[Scalars]:
    """Q_i(s, taken) of every critic."""
    return critics(parameters, jnp.concatenate([observation, taken], axis=1))
