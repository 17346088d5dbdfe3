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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from cvflows.agents.base import (
    Acted,
    Batch,
    Decoder,
    Key,
    Latents,
    Metrics,
    Observations,
    Scalars,
    Settings,
    judged,
    normal_log_density,
    values,
)
from cvflows.agents.networks import Network, apply, blend, make_network

LOG_STD = (-20.0, 2.0)
Pair = tuple[Network, Network]


class SACState(NamedTuple):
    """Everything that learning changes."""

    actor: Network
    critics: Pair
    targets: Pair
    log_alpha: Array
    optimisers: tuple[Any, Any, Any]
    updates: Array


@dataclass(frozen=True)
class SAC:
    """The rule, for one decoder and its settings."""

    decoder: Decoder
    settings: Settings

    @property
    def _adam(self) -> optax.GradientTransformation:
        return optax.adam(self.settings.learning_rate)

    def init(self, seed: int) -> SACState:
        """Fresh networks."""
        rng, o, d = np.random.default_rng(seed), self.decoder.problem.observation_dim, self.decoder.problem.action_dim
        actor = make_network(rng, o, self.settings.hidden, 2 * d)
        critics = tuple(make_network(rng, o + d, self.settings.hidden, 1) for _ in range(2))
        targets = jax.tree.map(jnp.copy, critics)
        log_alpha = jnp.zeros(())
        optimisers = tuple(self._adam.init(part) for part in (actor, critics, log_alpha))
        return SACState(actor, critics, targets, log_alpha, optimisers, jnp.zeros((), jnp.int32))  # type: ignore[arg-type]

    def _gaussian(self, actor: Network, observation: Observations) -> tuple[Latents, Latents]:
        mean, log_std = jnp.split(apply(actor, observation), 2, axis=1)
        if not self.decoder.bounded:
            mean = self.decoder.reach * jnp.tanh(mean / self.decoder.reach)
        return mean, jnp.clip(log_std, *LOG_STD)

    def sample(self, actor: Network, frozen: Any, observation: Observations, key: Key) -> tuple[Latents, Scalars]:
        """Latents and what stands for log π."""
        mean, log_std = self._gaussian(actor, observation)
        drawn = mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
        density = normal_log_density(drawn, mean, log_std)
        if self.decoder.bounded:
            squashing = 2 * (jnp.log(2.0) - drawn - jax.nn.softplus(-2 * drawn))  # log(1 - tanh²), without cancellation
            return jnp.tanh(drawn), density - jnp.sum(squashing, axis=1)
        match self.decoder.method.entropy:
            case "prior":
                density = density + jnp.sum(drawn**2, axis=1) / 2
            case "exact":
                x = self.decoder.problem.read(observation)
                density = density - self.decoder(frozen, drawn, x).log_det
        return drawn, density

    def act(self, actor: Network, frozen: Any, observation: Observations, key: Key, explore: bool) -> Acted:
        """Sampled latents with their actions; the mean without `explore`."""
        if explore:
            latent, _ = self.sample(actor, frozen, observation, key)
        else:
            mean, _ = self._gaussian(actor, observation)
            latent = jnp.tanh(mean) if self.decoder.bounded else mean
        return judged(self.decoder, frozen, latent, observation)

    def update(self, state: SACState, frozen: Any, batch: Batch, key: Key) -> tuple[SACState, Metrics]:
        """One step of critics, actor and temperature, and of the target critics."""
        settings, alpha = self.settings, jnp.exp(state.log_alpha)
        keys = jax.random.split(key)
        latent, density = self.sample(state.actor, frozen, batch.following, keys[0])
        ahead = values(state.targets, batch.following, self.decoder.seen(frozen, latent, batch.following))
        future = jnp.minimum(*ahead) - alpha * density
        goal = settings.reward_scale * batch.reward + settings.discount * (1 - batch.terminal) * future

        def critic_loss(critics: Pair) -> Array:
            first, second = values(critics, batch.observation, batch.taken)
            return jnp.mean((first - goal) ** 2 + (second - goal) ** 2) / 2

        critic_error, slope = jax.value_and_grad(critic_loss)(state.critics)
        change, critic_adam = self._adam.update(slope, state.optimisers[1])
        critics = optax.apply_updates(state.critics, change)

        def actor_loss(actor: Network) -> tuple[Array, tuple[Array, Array]]:
            latent, density = self.sample(actor, frozen, batch.observation, keys[1])
            seen = self.decoder.seen(frozen, latent, batch.observation)
            value = jnp.minimum(*values(critics, batch.observation, seen))
            return jnp.mean(alpha * density - value), (jnp.mean(density), jnp.mean(value))

        (actor_error, (density_mean, value)), slope = jax.value_and_grad(actor_loss, has_aux=True)(state.actor)
        change, actor_adam = self._adam.update(slope, state.optimisers[0])
        actor = optax.apply_updates(state.actor, change)

        d = self.decoder.problem.action_dim
        target_entropy = -float(d) if settings.target_entropy is None else settings.target_entropy
        slope = -(density_mean + target_entropy)
        change, alpha_adam = self._adam.update(slope, state.optimisers[2])
        log_alpha = optax.apply_updates(state.log_alpha, change)
        targets = jax.tree.map(lambda old, new: blend(old, new, settings.tau), state.targets, critics)
        optimisers = (actor_adam, critic_adam, alpha_adam)
        metrics = {
            "critic_loss": critic_error,
            "actor_loss": actor_error,
            "entropy": -density_mean,
            "temperature": alpha,
            "value": value,
        }
        return SACState(actor, critics, targets, log_alpha, optimisers, state.updates + 1), metrics
