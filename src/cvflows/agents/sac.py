"""Soft actor-critic, in a latent space or in the action box.

    critic:       (Q_i(s,z) - r - γ(1-d)·[min_j Q̄_j(s',z') - α log π(z'|s')])²
    actor:        E[α log π(z|s) - min_j Q_j(s,z)]
    temperature:  -log α · (log π(z|s) + H̄)

with z ~ μ(·|s) a diagonal Gaussian. Under a map, log π is log μ(z|s) + ‖z‖²/2: how much denser the policy is than the
map's own distribution of actions. Its mean is bounded as 3·tanh(m/3), since latents are clipped at ±3. In the box, z =
tanh of the Gaussian and log π has the usual correction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import ClassVar, NamedTuple, final

import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from cvflows.agents.base import Metrics, Presets
from cvflows.agents.decoders import Frozen
from cvflows.agents.networks import Ensemble, Parts, Perceptron, value_and_slope
from cvflows.agents.offpolicy import ROBOT, Batch, Noise, OffPolicy, OffPolicySettings, values
from cvflows.agents.problem import Acted, Latents, Observations, Scalars
from cvflows.agents.settings import Value, setting

LOG_STD = (-20.0, 2.0)


@dataclass(frozen=True)
class SACSettings(OffPolicySettings):
    """Settings of SAC."""

    n_critics: int = setting(2, "critics, of which the least counts", least=1, most=64)
    actor_every: int = setting(1, "updates of the critics per update of actor and temperature", least=1, most=1000)
    target_entropy: float | None = setting(None, "what -E[log π] is held at; none: minus the action's size", most=1e9)
    entropy: str = setting("prior", "log π under a map: relative, exact or plain", choices=("prior", "exact", "plain"))


class SACState(NamedTuple):
    """Everything that learning changes."""

    actor: Array
    critics: Array
    targets: Array
    log_alpha: Array
    optimisers: tuple[optax.OptState, optax.OptState, optax.OptState]
    updates: Array
    last: tuple[Array, Array, Array]
    """Of the last update of the actor: its loss, mean log π, mean value."""


_REACHER: dict[str, Value] = {
    "discount": 0.98,
    "buffer": 300_000,
    "tau": 0.02,
    "learning_rate": 7.3e-4,
    "train_every": 8,
}
_WORLD: dict[str, Value] = {"learning_rate": 1e-4, "hidden": (64, 64), "buffer": 100_000, "learning_starts": 256}
_ARM: dict[str, Value] = {"hidden": (128, 128), "learning_starts": 1000, "discount": 0.9, "final_rate": 0.1}
"""A reward that is progress: looking far ahead only makes it harder to learn."""


@final
@dataclass(frozen=True)
class SAC(OffPolicy[SACSettings, SACState]):
    """The rule, for one decoder and its settings."""

    Config: ClassVar[type[SACSettings]] = SACSettings
    presets: ClassVar[Presets] = Presets(
        steps={"Reacher": 300_000, "world": 100_000},
        paper={"Reacher": _REACHER, "world": _WORLD},
        tuned={
            "Reacher": {**_ARM, "learning_rate": 1e-3},
            "Hopper": ROBOT,
            "MuJoCo": ROBOT,
            "world": {"learning_rate": 1e-3, "learning_starts": 1000, "target_entropy": 0.0},
            "custom": {"learning_starts": 1000},
            "Space-Arena": {"reward_scale": 0.01},
            "Space-Corridor": {
                "reward_scale": 0.1,
                "final_rate": 0.1,
                "standardise": True,
                "noise_correlation": 0.95,
                "learning_starts": 10_000,
            },
        },
    )

    @cached_property
    def actor(self) -> Perceptron:
        return self.network(2 * self.decoder.problem.action_dim)

    @cached_property
    def critic(self) -> Ensemble:
        """The value networks."""
        return self.critics(self.settings.n_critics)

    def init(self, seed: int) -> SACState:
        rng = np.random.default_rng(seed)
        actor, critics = self.actor.init(rng), self.critic.init(rng)
        log_alpha, last = jnp.zeros(()), (jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))  # each its own: they are donated
        optimisers = (self.adam.init(actor), self.adam.init(critics), self.adam.init(log_alpha))
        updates = jnp.zeros((), jnp.int32)
        return SACState(actor, critics, jnp.copy(critics), log_alpha, optimisers, updates, last)

    def prepare(self, state: SACState, observations: np.ndarray) -> SACState:
        if not self.settings.standardise:
            return state
        return state._replace(
            actor=self.actor.standardised(state.actor, observations),
            critics=self.critic.network.standardised(state.critics, observations),
            targets=self.critic.network.standardised(state.targets, observations),
        )

    def _gaussian(self, output: Array) -> tuple[Latents, Latents]:
        mean, log_std = jnp.split(output, 2, axis=1)
        return self.decoder.mean(mean), jnp.clip(log_std, *LOG_STD)

    def sample(
        self, output: Array, frozen: Frozen, observation: Observations, noise: Latents
    ) -> tuple[Latents, Scalars]:
        """Latents drawn with standard normal `noise` around the actor's `output`, and what stands for log π."""
        x = self.decoder.problem.read(observation)
        return self.decoder.sample(frozen, *self._gaussian(output), noise, x, self.settings.entropy)

    def choose(self, output: Array, frozen: Frozen, observation: Observations, noise: Latents | None) -> Acted:
        if noise is None:
            latent = self.decoder.deterministic(self._gaussian(output)[0])
        else:
            latent, _ = self.sample(output, frozen, observation, noise)
        return self.decoder.act(frozen, latent, observation)

    @property
    def every(self) -> int:
        return self.settings.actor_every

    def improves(self, state: SACState) -> Array:
        return state.updates % self.every == 0

    def update(
        self, state: SACState, frozen: Frozen, batch: Batch, noise: Noise, *, improve: bool
    ) -> tuple[SACState, Metrics]:
        """One step of critics and target critics and, with `improve`, of actor and temperature."""
        settings, decoder, alpha = self.settings, self.decoder, jnp.exp(state.log_alpha)
        output = self.actor(state.actor, batch.next_observation)
        latent, density = self.sample(output, frozen, batch.next_observation, noise[0])
        seen = decoder.seen_next(frozen, latent, batch.next_observation, settings.critic)
        next_values = values(self.critic, state.targets, batch.next_observation, seen)
        future = reduce(jnp.minimum, next_values) - alpha * density
        goal = settings.reward_scale * batch.reward + settings.discount * (1 - batch.terminal) * future

        def critic_loss(critics: list[Parts]) -> Array:
            found = values(self.critic, critics, batch.observation, batch.taken)
            return jnp.mean(sum((value - goal) ** 2 for value in found)) / len(found)

        critic_error, slope = value_and_slope(self.critic, critic_loss, state.critics)
        change, adam = self.adam.update(slope, state.optimisers[1])
        critics = optax.apply_updates(state.critics, change)
        targets = state.targets + settings.tau * (critics - state.targets)
        optimisers = (state.optimisers[0], adam, state.optimisers[2])
        state = state._replace(critics=critics, targets=targets, optimisers=optimisers, updates=state.updates + 1)
        if improve:
            state = self._improve(state, frozen, batch, noise[1])
        error, density_mean, value = state.last
        return state, {
            "critic_loss": critic_error,
            "actor_loss": error,
            "entropy": -density_mean,
            "temperature": alpha,
            "value": value,
        }

    def _improve(self, state: SACState, frozen: Frozen, batch: Batch, noise: Latents) -> SACState:
        """One step of actor and temperature."""
        settings, decoder, alpha = self.settings, self.decoder, jnp.exp(state.log_alpha)
        critics = self.critic.parts(state.critics)

        def loss(actor: Parts) -> tuple[Array, tuple[Array, Array]]:
            output = self.actor(actor, batch.observation)
            latent, density = self.sample(output, frozen, batch.observation, noise)
            seen = decoder.seen(frozen, latent, batch.observation, settings.critic)
            value = reduce(jnp.minimum, values(self.critic, critics, batch.observation, seen))
            total = jnp.mean(alpha * density - value)
            if settings.penalty:
                total += settings.penalty * jnp.mean(decoder.penalty(latent, batch.observation))
            return total, (jnp.mean(density), jnp.mean(value))

        (error, (density, value)), slope = value_and_slope(self.actor, loss, state.actor, has_aux=True)
        change, actor_adam = self.adam.update(slope, state.optimisers[0])
        actor = optax.apply_updates(state.actor, change)
        d = decoder.problem.action_dim
        target = -float(d) if settings.target_entropy is None else settings.target_entropy
        change, alpha_adam = self.adam.update(-(density + target), state.optimisers[2])
        log_alpha = optax.apply_updates(state.log_alpha, change)
        optimisers = (actor_adam, state.optimisers[1], alpha_adam)
        return state._replace(actor=actor, log_alpha=log_alpha, optimisers=optimisers, last=(error, density, value))
