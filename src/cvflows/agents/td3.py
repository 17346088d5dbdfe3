"""Twin-delayed DDPG, and DDPG: deterministic policies in a latent space or in the action box.

    critic:  (Q_i(s,z) - r - γ(1-d)·min_j Q̄_j(s', π̄(s') + noise))²
    actor:   -E[Q_1(s, π(s))]

DDPG has one critic, no target noise and no delay. Where the critic sees actions, the gradient passes through the
decoder. NFW's actor regresses on a Frank-Wolfe step instead:

    actor:   E‖π(s) - (1-η)·a - η·argmax_{c ∈ C(s)} ⟨∇Q₁(s, a), c⟩‖²,   a = Proj π(s)
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
    Batch,
    Critics,
    Latents,
    Metrics,
    Noise,
    Observations,
    Settings,
    values,
)
from cvflows.agents.decoding import Acted, Decoder, judged
from cvflows.agents.networks import Network, Sizes, apply, make_network, standardised
from cvflows.constraints.oracle import maximise_samples

NOISE_CLIP = 0.5


class TD3State(NamedTuple):
    """Everything that learning changes."""

    actor: Network
    target_actor: Network
    critics: Critics
    targets: Critics
    optimisers: tuple[Any, Any]
    updates: Array
    actor_loss: Array  # of its last update


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
        return self.settings.adam()

    @property
    def actor_sizes(self) -> Sizes:
        """Layers of the actor."""
        return self.decoder.problem.actor_sizes(self.settings.hidden, self.decoder.problem.action_dim)

    @property
    def _critic(self) -> Sizes:
        return self.decoder.problem.critic_sizes(self.settings.hidden)

    def init(self, seed: int) -> TD3State:
        """Fresh networks."""
        rng = np.random.default_rng(seed)
        actor = make_network(rng, self.actor_sizes)
        critics = jnp.stack([make_network(rng, self._critic) for _ in range(1 if self._plain else 2)])
        optimisers = (self._adam.init(actor), self._adam.init(critics))
        updates = jnp.zeros((), jnp.int32)
        return TD3State(actor, jnp.copy(actor), critics, jnp.copy(critics), optimisers, updates, jnp.zeros(()))

    def standardise(self, state: TD3State, observations: np.ndarray) -> TD3State:
        """Networks that see observations relative to the mean and spread of some (n, o)."""
        return state._replace(
            actor=standardised(state.actor, self.actor_sizes, observations),
            target_actor=standardised(state.target_actor, self.actor_sizes, observations),
            critics=standardised(state.critics, self._critic, observations),
            targets=standardised(state.targets, self._critic, observations),
        )

    def _policy(self, actor: Network, observation: Observations) -> Latents:
        return self.decoder.bound(apply(actor, self.actor_sizes, observation))

    def choose(self, output: Array, frozen: Any, observation: Observations, noise: Latents | None) -> Acted:
        """Latents of the actor's `output`, with their actions; with `noise`, it explores where the method says."""
        latent = self.decoder.bound(output)
        if noise is None:
            return judged(self.decoder, frozen, latent, observation)
        shift = self.settings.noise * noise
        if self.decoder.method.noise == "action":
            return judged(self.decoder, frozen, latent, observation, shift)
        return judged(self.decoder, frozen, self.decoder.clip(latent + self.decoder.unit * shift), observation)

    def _frank_wolfe(self, critics: Critics, observation: Observations, latent: Latents) -> Latents:
        """(1-η)·a + η·c with a the projected action and c the allowed action furthest along ∇Q₁(s, a)."""
        x = self.decoder.problem.read(observation)
        action = self.decoder.corrected(latent, x)

        def total(action: Latents) -> Array:
            return jnp.sum(values(critics[:1], self._critic, observation, action)[0])

        corner = maximise_samples(self.decoder.problem.constraint, x, jax.grad(total)(action))
        rate = self.settings.frank_wolfe_rate
        return jax.lax.stop_gradient((1 - rate) * action + rate * corner)

    def update(self, state: TD3State, frozen: Any, batch: Batch, noise: Noise) -> tuple[TD3State, Metrics]:
        """One step of the critics, and of actor and targets when it is their turn; `noise` (2, batch, d) is normal."""
        settings = self.settings
        latent = self._policy(state.target_actor, batch.following)
        if not self._plain:
            jitter = jnp.clip(settings.target_noise * noise[0], -NOISE_CLIP, NOISE_CLIP)
            latent = self.decoder.clip(latent + self.decoder.unit * jitter)
        seen = self.decoder.seen_ahead(frozen, latent, batch.following)
        ahead = values(state.targets, self._critic, batch.following, seen)
        future = jnp.min(jnp.stack(ahead), axis=0)
        goal = settings.reward_scale * batch.reward + settings.discount * (1 - batch.terminal) * future

        def critic_loss(critics: Critics) -> Array:
            found = values(critics, self._critic, batch.observation, batch.taken)
            return jnp.mean(jnp.sum((jnp.stack(found) - goal[None]) ** 2, axis=0))

        critic_error, slope = jax.value_and_grad(critic_loss)(state.critics)
        change, critic_adam = self._adam.update(slope, state.optimisers[1])
        critics = optax.apply_updates(state.critics, change)

        def actor_loss(actor: Network) -> Array:
            latent = self._policy(actor, batch.observation)
            if self.decoder.method.actor == "frank-wolfe":
                return jnp.mean((latent - self._frank_wolfe(critics, batch.observation, latent)) ** 2)
            seen = self.decoder.seen(frozen, latent, batch.observation)
            loss = -jnp.mean(values(critics[:1], self._critic, batch.observation, seen)[0])
            if weight := self.decoder.method.penalty:
                loss += weight * jnp.mean(self.decoder.penalty(latent, batch.observation))
            return loss

        def improve(state: TD3State) -> tuple[Any, ...]:
            error, slope = jax.value_and_grad(actor_loss)(state.actor)
            change, adam = self._adam.update(slope, state.optimisers[0])
            actor = optax.apply_updates(state.actor, change)
            target = state.target_actor + settings.tau * (actor - state.target_actor)
            targets = state.targets + settings.tau * (critics - state.targets)
            return actor, target, targets, adam, error

        def wait(state: TD3State) -> tuple[Any, ...]:
            return state.actor, state.target_actor, state.targets, state.optimisers[0], state.actor_loss

        if self._plain:
            found = improve(state)
        else:
            found = jax.lax.cond(state.updates % settings.policy_delay == 0, improve, wait, state)
        actor, target, targets, actor_adam, actor_error = found
        metrics = {"critic_loss": critic_error, "actor_loss": actor_error, "value": jnp.mean(goal)}
        optimisers = (actor_adam, critic_adam)
        return TD3State(actor, target, critics, targets, optimisers, state.updates + 1, actor_error), metrics
