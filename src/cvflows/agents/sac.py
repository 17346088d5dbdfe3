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
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from cvflows.agents.base import (
    Batch,
    Critics,
    Latents,
    Metrics,
    Noise,
    Observations,
    Scalars,
    Settings,
    normal_log_density,
    values,
)
from cvflows.agents.decoding import Acted, Decoder, judged
from cvflows.agents.networks import Network, Sizes, apply, make_network, standardised
from cvflows.agents.rays import alpha_log_density

LOG_STD = (-20.0, 2.0)


class SACState(NamedTuple):
    """Everything that learning changes."""

    actor: Network
    critics: Critics
    targets: Critics
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
        return self.settings.adam()

    @property
    def actor_sizes(self) -> Sizes:
        """Layers of the actor."""
        return self.decoder.problem.actor_sizes(self.settings.hidden, 2 * self.decoder.problem.action_dim)

    @property
    def _critic(self) -> Sizes:
        return self.decoder.problem.critic_sizes(self.settings.hidden)

    def init(self, seed: int) -> SACState:
        """Fresh networks."""
        rng = np.random.default_rng(seed)
        actor = make_network(rng, self.actor_sizes)
        critics = jnp.stack([make_network(rng, self._critic) for _ in range(2)])
        log_alpha = jnp.zeros(())
        optimisers = (self._adam.init(actor), self._adam.init(critics), self._adam.init(log_alpha))
        return SACState(actor, critics, jnp.copy(critics), log_alpha, optimisers, jnp.zeros((), jnp.int32))

    def standardise(self, state: SACState, observations: np.ndarray) -> SACState:
        """Networks that see observations relative to the mean and spread of some (n, o)."""
        return state._replace(
            actor=standardised(state.actor, self.actor_sizes, observations),
            critics=standardised(state.critics, self._critic, observations),
            targets=standardised(state.targets, self._critic, observations),
        )

    def _gaussian(self, output: Array) -> tuple[Latents, Latents]:
        mean, log_std = jnp.split(output, 2, axis=1)
        if not self.decoder.squashed:
            mean = self.decoder.bound(mean)
        return mean, jnp.clip(log_std, *LOG_STD)

    def sample(self, output: Array, frozen: Any, observation: Observations, noise: Latents) -> tuple[Latents, Scalars]:
        """Latents drawn with standard normal `noise` around the actor's `output`, and what stands for log π."""
        mean, log_std = self._gaussian(output)
        drawn = mean + jnp.exp(log_std) * noise
        density = normal_log_density(noise, log_std)
        if self.decoder.squashed:
            squashing = 2 * (jnp.log(2.0) - drawn - jax.nn.softplus(-2 * drawn))  # log(1 - tanh²), without cancellation
            return jnp.tanh(drawn), density - jnp.sum(squashing, axis=1)
        x, method = self.decoder.problem.read(observation), self.decoder.method
        if method.entropy == "prior":
            density = density + jnp.sum(drawn**2, axis=1) / 2
        elif method.entropy == "exact" or method.decoder == "radial":
            density = density - self.decoder(frozen, drawn, x).log_det
        elif method.decoder == "alpha":
            constraint = self.decoder.problem.constraint
            density = jax.vmap(partial(alpha_log_density, constraint))(x, drawn, mean, log_std)
        return drawn, density

    def choose(self, output: Array, frozen: Any, observation: Observations, noise: Latents | None) -> Acted:
        """Latents sampled around the actor's `output`, with their actions; the mean without `noise`."""
        if noise is not None:
            latent, _ = self.sample(output, frozen, observation, noise)
        else:
            mean, _ = self._gaussian(output)
            latent = jnp.tanh(mean) if self.decoder.squashed else mean
        return judged(self.decoder, frozen, latent, observation)

    def update(self, state: SACState, frozen: Any, batch: Batch, noise: Noise) -> tuple[SACState, Metrics]:
        """One step of critics, actor and temperature, and of the target critics; `noise` (2, batch, d) is normal."""
        settings, alpha = self.settings, jnp.exp(state.log_alpha)
        output = apply(state.actor, self.actor_sizes, batch.following)
        latent, density = self.sample(output, frozen, batch.following, noise[0])
        seen = self.decoder.seen_ahead(frozen, latent, batch.following)
        ahead = values(state.targets, self._critic, batch.following, seen)
        future = jnp.minimum(*ahead) - alpha * density
        goal = settings.reward_scale * batch.reward + settings.discount * (1 - batch.terminal) * future

        def critic_loss(critics: Critics) -> Array:
            first, second = values(critics, self._critic, batch.observation, batch.taken)
            return jnp.mean((first - goal) ** 2 + (second - goal) ** 2) / 2

        critic_error, slope = jax.value_and_grad(critic_loss)(state.critics)
        change, critic_adam = self._adam.update(slope, state.optimisers[1])
        critics = optax.apply_updates(state.critics, change)

        def actor_loss(actor: Network) -> tuple[Array, tuple[Array, Array]]:
            output = apply(actor, self.actor_sizes, batch.observation)
            latent, density = self.sample(output, frozen, batch.observation, noise[1])
            seen = self.decoder.seen(frozen, latent, batch.observation)
            value = jnp.minimum(*values(critics, self._critic, batch.observation, seen))
            loss = jnp.mean(alpha * density - value)
            if weight := self.decoder.method.penalty:
                loss += weight * jnp.mean(self.decoder.penalty(latent, batch.observation))
            return loss, (jnp.mean(density), jnp.mean(value))

        (actor_error, (density_mean, value)), slope = jax.value_and_grad(actor_loss, has_aux=True)(state.actor)
        change, actor_adam = self._adam.update(slope, state.optimisers[0])
        actor = optax.apply_updates(state.actor, change)

        d = self.decoder.problem.action_dim
        target_entropy = -float(d) if settings.target_entropy is None else settings.target_entropy
        slope = -(density_mean + target_entropy)
        change, alpha_adam = self._adam.update(slope, state.optimisers[2])
        log_alpha = optax.apply_updates(state.log_alpha, change)
        targets = state.targets + settings.tau * (critics - state.targets)
        optimisers = (actor_adam, critic_adam, alpha_adam)
        metrics = {
            "critic_loss": critic_error,
            "actor_loss": actor_error,
            "entropy": -density_mean,
            "temperature": alpha,
            "value": value,
        }
        return SACState(actor, critics, targets, log_alpha, optimisers, state.updates + 1), metrics
