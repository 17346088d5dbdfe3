"""Twin-delayed DDPG, and DDPG: deterministic policies in a latent space or in the action box.

    critic:  (Q_i(s,z) - r - γ(1-d)·min_j Q̄_j(s', π̄(s') + noise))²
    actor:   -E[Q_1(s, π(s))]

DDPG has one critic, no target noise and no delay. Where the critic sees actions, the gradient passes through the
decoder. NFW's actor regresses on a Frank-Wolfe step instead:

    actor:   E‖π(s) - (1-η)·a - η·argmax_{c ∈ C(s)} ⟨∇Q₁(s, a), c⟩‖²,   a = Proj π(s)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from cvflows.agents.base import Metrics, Presets
from cvflows.agents.decoders import Frozen
from cvflows.agents.networks import Ensemble, Parts, Perceptron, value_and_slope
from cvflows.agents.offpolicy import ROBOT, Batch, Noise, OffPolicy, OffPolicySettings, values
from cvflows.agents.problem import Acted, Latents, Observations
from cvflows.agents.settings import Value, setting
from cvflows.constraints.oracle import maximise_samples

NOISE_CLIP = 0.5


@dataclass(frozen=True)
class DDPGSettings(OffPolicySettings):
    """Settings of DDPG: one critic, an actor that is updated with it, no noise on targets."""

    noise: float = setting(0.1, "exploration, in units of the latent's reach", least=0.0, most=10.0)
    explore: str = setting("latent", "what exploration noise is added to", choices=("latent", "action"))
    actor_every: int = setting(
        1, "updates of the critics per update of actor and targets", least=1, most=1000, later=True
    )


@dataclass(frozen=True)
class TD3Settings(DDPGSettings):
    """Settings of TD3."""

    target_noise: float = setting(0.2, "noise on the target's latents, in units of their reach", least=0.0, most=10.0)
    actor_every: int = setting(2, "updates of the critics per update of actor and targets", least=1, most=1000)
    n_critics: int = setting(2, "critics, of which the least counts", least=1, most=64)
    actor: str = setting("gradient", "what the actor follows", choices=("gradient", "frank-wolfe"))
    frank_wolfe_rate: float = setting(0.01, "η, how far NFW's actor is drawn to the best corner", least=0.0, most=1.0)


DeterministicT = TypeVar("DeterministicT", bound=DDPGSettings)


class TD3State(NamedTuple):
    """Everything that learning changes."""

    actor: Array
    target_actor: Array
    critics: Array
    targets: Array
    optimisers: tuple[optax.OptState, optax.OptState]
    updates: Array
    actor_loss: Array
    """Of the last update of the actor."""


_PAPER: dict[str, Value] = {"learning_rate": 1e-3, "hidden": (400, 300), "batch": 100, "train_every": None}
_REACHER: dict[str, Value] = {**_PAPER, "discount": 0.98, "buffer": 200_000}
_WORLD: dict[str, Value] = {"learning_rate": 1e-4, "hidden": (64, 64), "buffer": 100_000, "learning_starts": 256}
_WALKER: dict[str, Value] = {**ROBOT, "hidden": (256, 256), "batch": 256}
_ARM: dict[str, Value] = {"hidden": (128, 128), "learning_starts": 1000, "discount": 0.9, "final_rate": 0.1}
_CARRIED: dict[str, Value] = {"reward_scale": 0.01, "noise": 0.3, "noise_correlation": 0.95}
PRESETS = Presets(
    steps={"Reacher": 300_000, "world": 100_000},
    paper={
        "Reacher": _REACHER,
        "Hopper": {**_PAPER, "learning_rate": 3e-4, "batch": 256, "train_every": 1},
        "MuJoCo": _PAPER,
        "custom": _PAPER,
        "world": _WORLD,
    },
    tuned={
        "Reacher": {**_ARM, "batch": 256, "train_every": 8},
        "Hopper": _WALKER,
        "MuJoCo": _WALKER,
        "world": {"learning_rate": 1e-3, "learning_starts": 1000},
        "custom": {"learning_starts": 1000},
        "Space-Arena": _CARRIED,
        "Space-Corridor": {**_CARRIED, "learning_starts": 10_000},
    },
)


@dataclass(frozen=True)
class _Deterministic(OffPolicy[DeterministicT, TD3State]):
    """What both rules share."""

    independent_noise: ClassVar[bool] = False

    @property
    def _twin(self) -> TD3Settings | None:
        """TD3's own settings; None for DDPG."""
        return self.settings if isinstance(self.settings, TD3Settings) else None

    @cached_property
    def actor(self) -> Perceptron:
        return self.network(self.decoder.problem.action_dim)

    @cached_property
    def critic(self) -> Ensemble:
        """The value networks."""
        return self.critics(self._twin.n_critics if self._twin else 1)

    def init(self, seed: int) -> TD3State:
        rng = np.random.default_rng(seed)
        actor, critics = self.actor.init(rng), self.critic.init(rng)
        optimisers = (self.adam.init(actor), self.adam.init(critics))
        updates = jnp.zeros((), jnp.int32)
        return TD3State(actor, jnp.copy(actor), critics, jnp.copy(critics), optimisers, updates, jnp.zeros(()))

    def prepare(self, state: TD3State, observations: np.ndarray) -> TD3State:
        if not self.settings.standardise:
            return state
        critic = self.critic.network
        return state._replace(
            actor=self.actor.standardised(state.actor, observations),
            target_actor=self.actor.standardised(state.target_actor, observations),
            critics=critic.standardised(state.critics, observations),
            targets=critic.standardised(state.targets, observations),
        )

    def _policy(self, actor: Array | Parts, observation: Observations) -> Latents:
        return self.decoder.bound(self.actor(actor, observation))

    def choose(self, output: Array, frozen: Frozen, observation: Observations, noise: Latents | None) -> Acted:
        latent, decoder = self.decoder.bound(output), self.decoder
        if noise is None:
            return decoder.act(frozen, latent, observation)
        shift = self.settings.noise * noise
        if self.settings.explore == "action":
            return decoder.act(frozen, latent, observation, shift)
        return decoder.act(frozen, decoder.clip(latent + decoder.unit * shift), observation)

    def _frank_wolfe(self, critics: list[Parts], observation: Observations, latent: Latents, rate: float) -> Latents:
        """(1-η)·a + η·c with a the projected action and c the allowed action furthest along ∇Q₁(s, a)."""
        x = self.decoder.problem.read(observation)
        action = self.decoder.corrected(latent, x)

        def total(action: Latents) -> Array:
            return jnp.sum(values(self.critic, critics[:1], observation, action)[0])

        corner = maximise_samples(self.decoder.problem.constraint, x, jax.grad(total)(action))
        return jax.lax.stop_gradient((1 - rate) * action + rate * corner)

    @property
    def every(self) -> int:
        return self.settings.actor_every

    def improves(self, state: TD3State) -> Array:
        return state.updates % self.every == 0

    def update(
        self, state: TD3State, frozen: Frozen, batch: Batch, noise: Noise, *, improve: bool
    ) -> tuple[TD3State, Metrics]:
        """One step of the critics and, with `improve`, of actor and targets."""
        settings, decoder, twin = self.settings, self.decoder, self._twin
        latent = self._policy(state.target_actor, batch.next_observation)
        if twin:
            jitter = jnp.clip(twin.target_noise * noise[0], -NOISE_CLIP, NOISE_CLIP)
            latent = decoder.clip(latent + decoder.unit * jitter)
        seen = decoder.seen_next(frozen, latent, batch.next_observation, settings.critic)
        next_values = values(self.critic, state.targets, batch.next_observation, seen)
        future = jnp.min(jnp.stack(next_values), axis=0)
        goal = settings.reward_scale * batch.reward + settings.discount * (1 - batch.terminal) * future

        def critic_loss(critics: list[Parts]) -> Array:
            found = values(self.critic, critics, batch.observation, batch.taken)
            return jnp.mean(jnp.sum((jnp.stack(found) - goal[None]) ** 2, axis=0))

        critic_error, slope = value_and_slope(self.critic, critic_loss, state.critics)
        change, adam = self.adam.update(slope, state.optimisers[1])
        critics = optax.apply_updates(state.critics, change)
        optimisers = (state.optimisers[0], adam)
        state = state._replace(critics=critics, optimisers=optimisers, updates=state.updates + 1)
        if improve:
            state = self._improve(state, frozen, batch)
        return state, {"critic_loss": critic_error, "actor_loss": state.actor_loss, "value": jnp.mean(goal)}

    def _improve(self, state: TD3State, frozen: Frozen, batch: Batch) -> TD3State:
        """One step of the actor, and of all targets."""
        settings, decoder, twin = self.settings, self.decoder, self._twin
        critics = self.critic.parts(state.critics)

        def loss(actor: Parts) -> Array:
            latent = self._policy(actor, batch.observation)
            if twin and twin.actor == "frank-wolfe":
                goal = self._frank_wolfe(critics, batch.observation, latent, twin.frank_wolfe_rate)
                return jnp.mean((latent - goal) ** 2)
            seen = decoder.seen(frozen, latent, batch.observation, settings.critic)
            total = -jnp.mean(values(self.critic, critics[:1], batch.observation, seen)[0])
            if settings.penalty:
                total += settings.penalty * jnp.mean(decoder.penalty(latent, batch.observation))
            return total

        error, slope = value_and_slope(self.actor, loss, state.actor)
        change, adam = self.adam.update(slope, state.optimisers[0])
        actor = optax.apply_updates(state.actor, change)
        return state._replace(
            actor=actor,
            target_actor=state.target_actor + settings.tau * (actor - state.target_actor),
            targets=state.targets + settings.tau * (state.critics - state.targets),
            optimisers=(adam, state.optimisers[1]),
            actor_loss=error,
        )


@final
@dataclass(frozen=True)
class TD3(_Deterministic[TD3Settings]):
    """Fujimoto et al. 2018."""

    Config: ClassVar[type[TD3Settings]] = TD3Settings
    presets: ClassVar[Presets] = PRESETS._replace(
        paper={
            **PRESETS.paper,
            **{family: {**PRESETS.paper[family], "frank_wolfe_rate": 0.05} for family in ("Reacher", "world")},
        }
    )


@final
@dataclass(frozen=True)
class DDPG(_Deterministic[DDPGSettings]):
    """Lillicrap et al. 2016."""

    Config: ClassVar[type[DDPGSettings]] = DDPGSettings
    presets: ClassVar[Presets] = PRESETS
