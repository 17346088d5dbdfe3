"""Proximal policy optimisation, in a latent space or in the action box.

    ratio:    r = μ_new(z|s) / μ_old(z|s)
    actor:    -E[min(r·A, clip(r, 1-ε, 1+ε)·A)] - weight·(-KL(μ ‖ N(0,I)))
    critic:   (V(s) - A - V_old(s))²
    A:        generalised advantage estimates, bootstrapped where an episode is cut off

z is drawn from a diagonal Gaussian μ with a standard deviation that does not depend on the state. Actions are
a = f(z, x) with a fixed invertible map f, so that π(a|s) = μ(z|s)·|det ∂f/∂z|⁻¹. The determinant depends on z and x
alone: it cancels in the ratio, and in the KL divergence between two policies. Both are exact for actions, and never
compute it. The latent's density is that of the unclipped draw.

With `learn_from="executed"`, an action that was replaced counts as the draw: for decoders whose latents are actions.

Observations are normalised by their running mean and spread, rewards by the spread of their running discounted sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from cvflows.agents.base import Algorithm, Metrics, Presets, Rhythm
from cvflows.agents.decoders import Frozen
from cvflows.agents.networks import ACTIVATIONS, Parts, Perceptron
from cvflows.agents.problem import Acted, Latents, Numbers, Observations, Scalars
from cvflows.agents.rollout import Rollout, Trajectories
from cvflows.agents.settings import LARGEST, Settings, Value, setting

CLIP = 10.0
"""Normalised observations and rewards are clipped at ±10."""
LOG_STD = (-5.0, 2.0)
FASTER, PACES = 1.5, (0.03, 30.0)
"""By how much the actor's pace changes after a rollout whose KL missed the goal by a factor of two, and its range."""
LEAST_SPREAD = 1e-2
"""Advantages are divided by their spread, or by this: where there was no reward, they are errors of the critic."""


@dataclass(frozen=True)
class PPOSettings(Settings):
    """Settings of PPO."""

    discount: float = setting(0.99, "γ, weight of what follows a step", least=0.0, most=1.0)
    trace: float = setting(0.95, "λ of generalised advantage estimation", least=0.0, most=1.0)
    learning_rate: float = setting(3e-4, "Adam's", above=0.0, most=1.0)
    final_rate: float = setting(0.0, "share of the learning rate that is left at the end", least=0.0, most=1.0)
    hidden: tuple[int, ...] = setting((64, 64), "widths of the hidden layers", least=1, most=65_536)
    activation: str = setting("tanh", "between the layers", choices=tuple(ACTIVATIONS))
    rollout: int = setting(64, "steps of every environment between updates", least=1, most=1_000_000)
    epochs: int = setting(10, "passes over a rollout", least=1, most=1000)
    minibatches: int = setting(32, "parts of a rollout, each a gradient step", least=1, most=100_000)
    clip: float = setting(0.2, "ε, how far the ratio may move", above=0.0, most=10.0)
    value_weight: float = setting(0.5, "weight of the critic's loss", least=0.0, most=1e6)
    entropy_weight: float = setting(0.003, "weight of -KL(policy ‖ the map's own density)", least=0.0, most=1e6)
    final_entropy: float = setting(1.0, "share of that weight that is left at the end", least=0.0, most=1.0, later=True)
    fading: float = setting(1.0, "share of the run in which that weight falls", above=0.0, most=1.0, later=True)
    gradient_norm: float = setting(0.5, "gradients are clipped at this norm", above=0.0, most=1e9)
    initial_std: float = setting(1.0, "standard deviation of the latent to begin with", above=0.0, most=7.0)
    learn_from: str = setting("asked", "action that ratios are of", choices=("asked", "executed"))
    noise_correlation: float = setting(0.0, "of the draws' noise from one step to the next", least=0.0, most=1.0)
    target_kl: float | None = setting(None, "KL from the old policy at which a rollout's updates stop", above=0.0)
    kl_goal: float | None = setting(None, "KL per rollout that the actor's rate is adapted to reach", above=0.0)
    recompute: bool = setting(True, "advantages are estimated anew in every pass")
    normalise_observations: bool = setting(True, "by running mean and spread")
    normalise_rewards: bool = setting(True, "by the spread of their running discounted sum")

    @property
    def correlation(self) -> float:
        return self.noise_correlation


class Moments(NamedTuple):
    """Running mean and variance of a `number` of samples."""

    mean: Array
    variance: Array
    number: Array

    def updated(self, samples: Array) -> Moments:
        """With more samples (n, …)."""
        n, mean, variance = samples.shape[0], jnp.mean(samples, axis=0), jnp.var(samples, axis=0)
        total = self.number + n
        shift = mean - self.mean
        spread = self.variance * self.number + variance * n + shift**2 * self.number * n / total
        return Moments(self.mean + shift * n / total, spread / total, total)


class PPOState(NamedTuple):
    """Everything that learning changes."""

    actor: Array
    critic: Array
    optimiser: optax.OptState
    seen: Moments
    returns: Moments
    running: Array
    """Discounted sum of rewards of every environment."""
    pace: Array
    """What the actor's steps are multiplied by, where its rate is adapted."""
    updates: Array


_FADING: dict[str, Value] = {"entropy_weight": 0.01, "final_entropy": 0.0}
"""What noise finds must in the end work without: some policies walked with it, and fell without."""


@final
@dataclass(frozen=True)
class PPO(Algorithm[PPOSettings, PPOState, Trajectories[np.ndarray]]):
    """Schulman et al. 2017."""

    Config: ClassVar[type[PPOSettings]] = PPOSettings
    independent_noise: ClassVar[bool] = False
    """Every draw alone has the policy's density, which is what ratios compare, whatever came before it."""
    rhythm: ClassVar[Rhythm] = Rhythm(num_envs=32, evaluate_every=50_000, checkpoint_every=100_000)
    presets: ClassVar[Presets] = Presets(
        steps={"Reacher": 1_000_000, "world": 200_000},
        paper={},
        tuned={
            "Reacher": {"discount": 0.95, "rollout": 128},
            "HC+O": {"discount": 0.995, "initial_std": 0.6, "entropy_weight": 0.0},
            "Hopper": {"entropy_weight": 0.01},
            "H+D": {**_FADING, "fading": 0.5, "discount": 0.995},
            "W+O+S": _FADING,
            "Space-Arena": {"noise_correlation": 0.9},
            "Space-Corridor": {"noise_correlation": 0.98},
        },
    )

    @cached_property
    def actor(self) -> Perceptron:
        problem = self.decoder.problem
        sizes = (problem.observation_dim, *self.settings.hidden, problem.action_dim)
        clip = CLIP if self.settings.normalise_observations else math.inf
        return Perceptron(sizes, self.settings.activation, input_clip=clip, free=problem.action_dim)

    @cached_property
    def critic(self) -> Perceptron:
        """The value network."""
        return Perceptron((*self.actor.sizes[:-1], 1), self.settings.activation, input_clip=self.actor.input_clip)

    def init(self, seed: int) -> PPOState:
        rng, problem = np.random.default_rng(seed), self.decoder.problem
        actor = (
            self.actor.init_orthogonal(rng, last=0.01)
            .at[-problem.action_dim :]
            .set(math.log(self.settings.initial_std))
        )
        critic = self.critic.init_orthogonal(rng, last=1.0)
        seen = Moments(jnp.zeros(problem.observation_dim), jnp.ones(problem.observation_dim), jnp.zeros(()))
        returns = Moments(jnp.zeros(()), jnp.ones(()), jnp.zeros(()))
        updates = jnp.zeros((), jnp.int32)
        running = jnp.zeros(self.environments)
        pace = jnp.ones(())
        return PPOState(actor, critic, self.adam.init((actor, critic)), seen, returns, running, pace, updates)

    @property
    def rollouts(self) -> int:
        """How many a whole run has."""
        return max(self.steps // (self.settings.rollout * self.environments), 1)

    @property
    def adam(self) -> optax.GradientTransformation:
        """Adam with clipped gradients, its rate falling linearly over the run."""
        settings = self.settings
        updates = min(self.rollouts * settings.epochs * settings.minibatches, LARGEST)
        last = settings.final_rate * settings.learning_rate
        rate = optax.linear_schedule(settings.learning_rate, last, updates)
        return optax.chain(optax.clip_by_global_norm(settings.gradient_norm), optax.adam(rate, eps=1e-5))

    def experience(self) -> Rollout:
        problem, settings = self.decoder.problem, self.settings
        sizes = self.environments, problem.observation_dim, problem.action_dim
        return Rollout(settings.rollout, *sizes, executed=settings.learn_from == "executed")

    def draw(self, rng: np.random.Generator, data: Trajectories[np.ndarray]) -> np.ndarray:
        """An order of the rollout's steps for every pass."""
        return np.stack([rng.permutation(data.reward.size) for _ in range(self.settings.epochs)]).astype(np.int32)

    def _gaussian(self, output: Array) -> tuple[Latents, Latents]:
        mean, log_std = jnp.split(output, 2, axis=1)
        return mean, jnp.clip(log_std, *LOG_STD)

    def choose(self, output: Array, frozen: Frozen, observation: Observations, noise: Latents | None) -> Acted:
        mean, log_std = self._gaussian(output)
        drawn = mean if noise is None else mean + jnp.exp(log_std) * noise
        return self.decoder.act(frozen, self.decoder.deterministic(drawn), observation)._replace(latent=drawn)

    def log_density(self, actor: Array | Parts, observation: Observations, latent: Latents) -> Scalars:
        """log μ(z|s)."""
        mean, log_std = self._gaussian(self.actor(actor, observation))
        return -jnp.sum(((latent - mean) / jnp.exp(log_std)) ** 2 / 2 + log_std + math.log(2 * math.pi) / 2, axis=1)

    def learn(
        self, state: PPOState, frozen: Frozen, data: Trajectories[np.ndarray], draws: Numbers
    ) -> tuple[PPOState, Metrics]:
        """Several passes of clipped updates over a rollout."""
        settings = self.settings
        table = Trajectories(*map(jnp.asarray, data))
        reward, state = self._rewards(state, table)
        observation, latent = (part.reshape(-1, part.shape[-1]) for part in (table.observation, table.latent))
        seen = state.seen.updated(observation)
        state = self._normalised(state, seen, state.seen.number == 0)  # at first there is nothing to normalise by
        old = self.log_density(state.actor, observation, latent)
        done = jnp.minimum(state.updates / (settings.fading * self.rollouts), 1.0)
        weight = settings.entropy_weight * (1 - (1 - settings.final_entropy) * done)

        def step(carry: _Carry, batch: _Minibatch) -> tuple[_Carry, Metrics]:
            shapes, parameters = (self.actor, self.critic), carry.networks
            parts = tuple(shape.parts(vector) for shape, vector in zip(shapes, parameters, strict=True))
            (_, metrics), slopes = jax.value_and_grad(self._loss, has_aux=True)(parts, batch, weight)
            slope = tuple(shape.joined(some) for shape, some in zip(shapes, slopes, strict=True))
            (actor_change, critic_change), optimiser = self.adam.update(slope, carry.optimiser)
            change = (state.pace * actor_change, critic_change)
            found = _Carry(optax.apply_updates(carry.networks, change), optimiser, carry.stopped)
            if settings.target_kl is not None:
                stopped = carry.stopped | (metrics["kl"] > settings.target_kl)
                found = jax.tree.map(lambda new, before: jnp.where(stopped, before, new), found, carry)
                found = found._replace(stopped=stopped)
            return found, metrics

        def epoch(carry: _Carry, order: Array) -> tuple[_Carry, Metrics]:
            advantage, target = self.advantages(
                carry.networks[1] if settings.recompute else state.critic, table, reward
            )
            whole = _Minibatch(observation, latent, old, advantage, target)
            size = len(order) // settings.minibatches
            places = order[: size * settings.minibatches].reshape(settings.minibatches, size)
            return jax.lax.scan(step, carry, jax.tree.map(lambda table: table[places], whole))

        begin = _Carry((state.actor, state.critic), state.optimiser, jnp.zeros((), bool))
        end, metrics = jax.lax.scan(epoch, begin, jnp.asarray(draws))
        actor, critic = end.networks
        found = state._replace(actor=actor, critic=critic, optimiser=end.optimiser, updates=state.updates + 1)
        if settings.kl_goal is not None:
            moved = jnp.mean(metrics["kl"][-1]) / settings.kl_goal
            pace = state.pace * jnp.where(moved > 2, 1 / FASTER, jnp.where(moved < 0.5, FASTER, 1.0))
            found = found._replace(pace=jnp.clip(pace, *PACES))
        metrics = jax.tree.map(jnp.mean, metrics) | {"std": jnp.mean(jnp.exp(actor[-latent.shape[1] :]))}
        return self._normalised(found._replace(seen=seen), seen, True), metrics

    def entropy(self, mean: Latents, log_std: Latents) -> Array:
        """-KL(N(mean, e^log_std) ‖ N(0,I)), averaged: the entropy relative to the map's own density."""
        return -jnp.mean(jnp.sum((jnp.exp(2 * log_std) + mean**2 - 1) / 2 - log_std, axis=1))

    def _loss(self, networks: tuple[Parts, ...], batch: _Minibatch, entropy_weight: Array) -> tuple[Array, Metrics]:
        settings, (actor, critic) = self.settings, networks
        mean, log_std = self._gaussian(self.actor(actor, batch.observation))
        change = self.log_density(actor, batch.observation, batch.latent) - batch.log_density
        ratio = jnp.exp(change)
        advantage = (batch.advantage - jnp.mean(batch.advantage)) / jnp.maximum(jnp.std(batch.advantage), LEAST_SPREAD)
        clipped = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
        actor_loss = -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
        value = self.critic(critic, batch.observation)[:, 0]
        critic_loss = jnp.mean((value - batch.target) ** 2)
        entropy = self.entropy(mean, log_std)
        loss = actor_loss + settings.value_weight * critic_loss - entropy_weight * entropy
        unexplained = jnp.var(batch.target - value) / jnp.maximum(jnp.var(batch.target), 1e-8)
        metrics = {
            "actor_loss": actor_loss,
            "critic_loss": critic_loss,
            "entropy": entropy,
            "kl": jnp.mean(ratio - 1 - change),
            "clipped": jnp.mean(jnp.abs(ratio - 1) > settings.clip),
            "explained": 1 - unexplained,
        }
        return loss, metrics

    def _rewards(self, state: PPOState, data: Trajectories[Array]) -> tuple[Array, PPOState]:
        """Rewards (steps, environments) to learn from, and the state that remembers their spread."""
        if not self.settings.normalise_rewards:
            return data.reward, state

        def step(running: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
            reward, ended = inputs
            total = self.settings.discount * running + reward
            return jnp.where(ended > 0, 0.0, total), total

        running, totals = jax.lax.scan(step, state.running, (data.reward, data.ended))
        returns = state.returns.updated(totals.ravel())
        scaled = jnp.clip(data.reward / jnp.sqrt(returns.variance + 1e-8), -CLIP, CLIP)
        return scaled, state._replace(returns=returns, running=running)

    def advantages(self, critic: Array, data: Trajectories[Array], reward: Array) -> tuple[Scalars, Scalars]:
        """Advantages and value targets of every step, flattened."""
        settings, shape = self.settings, reward.shape

        def values(table: Array) -> Array:
            return self.critic(critic, table.reshape(-1, table.shape[-1]))[:, 0].reshape(shape)

        value = values(data.observation)
        surprise = reward + settings.discount * (1 - data.terminal) * values(data.next_observation) - value

        def back(later: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
            surprise, ended = inputs
            advantage = surprise + settings.discount * settings.trace * (1 - ended) * later
            return advantage, advantage

        _, advantage = jax.lax.scan(back, jnp.zeros(shape[1]), (surprise, data.ended), reverse=True)
        return advantage.ravel(), (advantage + value).ravel()

    def _normalised(self, state: PPOState, seen: Moments, now: Array | bool) -> PPOState:
        """Networks that see observations relative to their running mean and spread, if `now`."""
        if not self.settings.normalise_observations:
            return state
        size = seen.mean.shape[0]
        header = jnp.concatenate([seen.mean, 1 / jnp.sqrt(seen.variance + 1e-8)])

        def changed(vector: Array) -> Array:
            return vector.at[: 2 * size].set(jnp.where(now, header, vector[: 2 * size]))

        return state._replace(actor=changed(state.actor), critic=changed(state.critic))


class _Carry(NamedTuple):
    networks: tuple[Array, Array]
    optimiser: optax.OptState
    stopped: Array


class _Minibatch(NamedTuple):
    observation: Observations
    latent: Latents
    log_density: Scalars
    advantage: Scalars
    target: Scalars
