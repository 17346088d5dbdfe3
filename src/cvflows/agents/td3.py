"""Twin-delayed DDPG, and DDPG: deterministic policies in a latent space or in the action box.

    critic:  (Q_i(s,z) - r - γ(1-d)·min_j Q̄_j(s', π̄(s') + noise))²
    actor:   -E[Q_1(s, π(s))]

DDPG has one critic, no target noise and no delay. Where the critic sees actions, the gradient passes through the
decoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from cvflows.agents.base import Acted, Batch, Decoder, Key, Latents, Metrics, Observations, Settings, judged, values
from cvflows.agents.networks import Network, apply, blend, make_network

NOISE_CLIP = 0.5


class TD3State(NamedTuple):
    """Everything that learning changes."""

    actor: Network
    target_actor: Network
    critics: tuple[Network, ...]
    targets: tuple[Network, ...]
    optimisers: tuple[Any, Any]
    updates: Array


@dataclass(frozen=True)
class TD3:
    """The rule, for one decoder and its settings."""

    decoder: Decoder
    settings: Settings

    @property
    def _plain(self) -> bool:
        return self.decoder.method.rule == "ddpg"

    @property
    def _adam(self) -> optax.GradientTransformation:
        return optax.adam(self.settings.learning_rate)

    def init(self, seed: int) -> TD3State:
        """Fresh networks."""
        rng, o, d = np.random.default_rng(seed), self.decoder.problem.observation_dim, self.decoder.problem.action_dim
        actor = make_network(rng, o, self.settings.hidden, d)
        critics = tuple(make_network(rng, o + d, self.settings.hidden, 1) for _ in range(1 if self._plain else 2))
        copies = jax.tree.map(jnp.copy, (actor, critics))
        optimisers = (self._adam.init(actor), self._adam.init(critics))
        return TD3State(actor, copies[0], critics, copies[1], optimisers, jnp.zeros((), jnp.int32))

    def _policy(self, actor: Network, observation: Observations) -> Latents:
        out = apply(actor, observation)
        reach = self.decoder.reach
        return reach * jnp.tanh(out / reach)

    def act(self, actor: Network, frozen: Any, observation: Observations, key: Key, explore: bool) -> Acted:
        """The policy's latents with their actions; with noise in the latent to `explore`."""
        latent = self._policy(actor, observation)
        if explore:
            noise = self.settings.noise * self.decoder.reach * jax.random.normal(key, latent.shape)
            latent = self.decoder.clip(latent + noise)
        return judged(self.decoder, frozen, latent, observation)

    def update(self, state: TD3State, frozen: Any, batch: Batch, key: Key) -> tuple[TD3State, Metrics]:
        """One step of the critics, and of actor and targets when it is their turn."""
        settings, reach = self.settings, self.decoder.reach
        latent = self._policy(state.target_actor, batch.following)
        if not self._plain:
            noise = jnp.clip(settings.target_noise * jax.random.normal(key, latent.shape), -NOISE_CLIP, NOISE_CLIP)
            latent = self.decoder.clip(latent + reach * noise)
        ahead = values(state.targets, batch.following, self.decoder.seen(frozen, latent, batch.following))
        future = jnp.min(jnp.stack(ahead), axis=0)
        goal = settings.reward_scale * batch.reward + settings.discount * (1 - batch.terminal) * future

        def critic_loss(critics: tuple[Network, ...]) -> Array:
            found = values(critics, batch.observation, batch.taken)
            return jnp.mean(jnp.sum((jnp.stack(found) - goal[None]) ** 2, axis=0))

        critic_error, slope = jax.value_and_grad(critic_loss)(state.critics)
        change, critic_adam = self._adam.update(slope, state.optimisers[1])
        critics = optax.apply_updates(state.critics, change)

        def actor_loss(actor: Network) -> Array:
            latent = self._policy(actor, batch.observation)
            seen = self.decoder.seen(frozen, latent, batch.observation)
            return -jnp.mean(values(critics[:1], batch.observation, seen)[0])

        def improve(state: TD3State) -> tuple[Any, ...]:
            error, slope = jax.value_and_grad(actor_loss)(state.actor)
            change, adam = self._adam.update(slope, state.optimisers[0])
            actor = optax.apply_updates(state.actor, change)
            target = blend(state.target_actor, actor, settings.tau)
            targets = jax.tree.map(lambda old, new: blend(old, new, settings.tau), state.targets, critics)
            return actor, target, targets, adam, error

        def wait(state: TD3State) -> tuple[Any, ...]:
            return state.actor, state.target_actor, state.targets, state.optimisers[0], jnp.zeros(())

        if self._plain:
            found = improve(state)
        else:
            found = jax.lax.cond(state.updates % settings.policy_delay == 0, improve, wait, state)
        actor, target, targets, actor_adam, actor_error = found
        metrics = {"critic_loss": critic_error, "actor_loss": actor_error, "value": jnp.mean(goal)}
        optimisers = (actor_adam, critic_adam)
        return TD3State(actor, target, critics, targets, optimisers, state.updates + 1), metrics
