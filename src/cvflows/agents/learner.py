"""Learner: a method on a problem, compiled, with its state, its experience and its random numbers.

It knows neither environments nor files. Random numbers are drawn on the host, from one generator: that is faster than
in a compiled function, and a learner whose state, experience and generator are restored continues as if it had never
stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from cvflows.agents.base import AnyAlgorithm, Metrics, State
from cvflows.agents.decoders import Decoder, Frozen
from cvflows.agents.experience import Experience, Steps
from cvflows.agents.exploring import Exploration
from cvflows.agents.methods import Method
from cvflows.agents.problem import Acted, Numbers, Problem
from cvflows.agents.rejection import AT_EVALUATION, TOLD, accepting, draw_preference
from cvflows.agents.settings import Settings
from cvflows.constraints.writing import write
from cvflows.maps.base import ActionMap

SCALARS = 5
FEW = 8
"""Observations for which the actor is computed on the host."""


class Learner:
    """`explore` and `decide` on observations, `add` steps, `learn` what is due."""

    def __init__(
        self,
        method: Method,
        settings: Settings,
        problem: Problem,
        map_: ActionMap | None = None,
        *,
        seed: int = 0,
        steps: int = 1_000_000,
        environments: int = 1,
    ) -> None:
        tries = settings.attempts
        self.method, self.settings, self.problem, self.map = method, settings, problem, map_
        self._preferences = np.zeros((environments, TOLD if tries > 1 else 0), np.float32)
        told = Problem(problem.observation_dim + self._preferences.shape[1], problem.constraint, _reader(problem))
        decoder, self.frozen = method.decoder.make(told, map_, **method.options)
        self.algorithm: AnyAlgorithm = method.algorithm(decoder, settings, steps, environments)
        self.state: State = self.algorithm.init(seed)
        self.experience: Experience[Any] = self.algorithm.experience()
        self.rng = np.random.default_rng([seed, 7])
        self.noise_dim, self._tries = problem.action_dim * tries, tries
        self.exploration = Exploration(environments, self.noise_dim, settings.correlation)
        self._act, self._act_randomly = (
            jax.jit(_packed_with_tries(accepting(act, tries)) if tries > 1 else _packed(act))
            for act in (partial(_act, self.algorithm), partial(_random, decoder))
        )
        self._decide = jax.jit(_packed(partial(_act, self.algorithm)))
        self._choose = jax.jit(_packed(self.algorithm.choose))
        self._learn = jax.jit(partial(_learn, self.algorithm), donate_argnums=0)

    def begin(self, environment: int, seed: int) -> None:
        """A new episode begins in one environment."""
        self.exploration.restart(environment)
        if self._preferences.size:
            self._preferences[environment] = draw_preference(seed)

    def explore(self, observations: np.ndarray) -> Acted:
        """What to do at observations (n, o), one per environment, while learning: at random until it is warm."""
        warm, seen = self.experience.warm, self._told(observations, self._preferences)
        noise = self.exploration.draw(self.rng, white=warm and self.algorithm.independent_noise)
        if warm:
            return self._stochastic(seen, noise)
        return self._unpacked(self._act_randomly(self.state.actor, self.frozen, seen, noise))

    def decide(self, observations: np.ndarray, *, stochastic: bool = False) -> Acted:
        """What to do at observations (n, o) without learning: the policy's mean, or a draw from it."""
        preference = np.tile(AT_EVALUATION[: self._preferences.shape[1]], (len(observations), 1))
        seen = self._told(observations, preference)
        if stochastic:
            return self._stochastic(seen, self.rng.standard_normal((len(seen), self.noise_dim), np.float32))
        if len(seen) <= FEW:
            return self._unpacked(self._choose(self._output(seen), self.frozen, seen, None))
        return self._unpacked(self._decide(self.state.actor, self.frozen, seen, None))

    def decide_alone(self, observation: np.ndarray) -> np.ndarray:
        """The action (d,) of `decide` at one observation (o,): in Python where the decoder can be written so."""
        seen = self._told(observation[None], AT_EVALUATION[None, : self._preferences.shape[1]])
        if self.written is not None:
            try:
                found = self.written(self._output(seen)[0].tolist(), seen[0].tolist())
                return np.array(found, np.float32)
            except (ArithmeticError, ValueError):  # a division by zero or the like: JAX knows what it means
                pass
        return np.asarray(self.decide(observation[None]).action)[0]

    def action(self, output: Array, seen: Array) -> Array:
        """The action (d,) of an actor's output at what it was told, to be traced."""
        return jnp.asarray(self.algorithm.choose(output[None], self.frozen, seen[None], None).action)[0]

    @property
    def told_at_evaluation(self) -> np.ndarray:
        """What follows an observation when nothing is learned; empty for most methods."""
        return AT_EVALUATION[: self._preferences.shape[1]]

    @cached_property
    def written(self) -> Callable[[list[float], list[float]], list[float]] | None:
        """From an actor's output and an observation to the action, as plain Python; None where it cannot be written."""
        actor = self.algorithm.actor
        found = write(self.action, output=actor.outputs, seen=actor.inputs)
        return None if found is None else found.define("action")

    def add(self, steps: Steps) -> None:
        """Keep a step of every environment."""
        before, after = (self._told(seen, self._preferences) for seen in (steps.observation, steps.next_observation))
        was_learning = self.experience.learning
        self.experience.add(steps._replace(observation=before, next_observation=after))
        if self.experience.learning and not was_learning:
            seen = self.experience.observations[:, : self.problem.observation_dim]
            self.state = self.algorithm.prepare(self.state, seen)

    def learn(self) -> Metrics | None:
        """Learn what is due; the metrics of the last update, None where nothing was due."""
        metrics = None
        while (data := self.experience.due(self.rng)) is not None:
            metrics = self.update(data)
        return metrics

    def update(self, data: object) -> Metrics:
        """Learn from data of the kind that the experience gives."""
        draws = self.algorithm.draw(self.rng, data)
        self.state, metrics = self._learn(self.state, self.frozen, data, draws)
        return metrics

    def _told(self, observations: np.ndarray, preferences: np.ndarray) -> np.ndarray:
        return np.concatenate([observations, preferences], axis=1) if preferences.shape[1] else observations

    def _output(self, seen: np.ndarray) -> np.ndarray:
        return self.algorithm.actor.on_host(np.asarray(self.state.actor), seen)

    def _stochastic(self, seen: np.ndarray, noise: np.ndarray) -> Acted:
        if len(seen) <= FEW and self._tries == 1:
            return self._unpacked(self._choose(self._output(seen), self.frozen, seen, noise))
        return self._unpacked(self._act(self.state.actor, self.frozen, seen, noise))

    def _unpacked(self, columns: jax.Array) -> Acted:
        table, d = np.asarray(columns), self.problem.action_dim
        end = 2 * d + SCALARS
        acted = Acted(table[:, :d], table[:, d : 2 * d], *table[:, 2 * d : end].T)
        if table.shape[1] == end:
            return acted
        tried = table[:, end + 1 :].reshape(len(table), -1, d)
        return acted._replace(rejected=[some[: int(count)] for some, count in zip(tried, table[:, end], strict=True)])


def _reader(problem: Problem) -> Callable[[Array], Array]:
    """How a context is read from an observation that further numbers may follow."""
    size, read = problem.observation_dim, problem.read
    return lambda observation: read(observation[:, :size]) if observation.shape[1] > size else read(observation)


def _act(algorithm: AnyAlgorithm, actor: Array, frozen: Frozen, observation: Array, noise: Array | None) -> Acted:
    return algorithm.choose(algorithm.actor(actor, observation), frozen, observation, noise)


def _random(decoder: Decoder, _: Array, frozen: Frozen, observation: Array, noise: Array) -> Acted:
    return decoder.act(frozen, decoder.random(noise), observation)


def _learn(
    algorithm: AnyAlgorithm, state: State, frozen: Frozen, data: object, draws: Numbers
) -> tuple[State, Metrics]:
    return algorithm.learn(state, frozen, data, draws)


def _columns(acted: Acted) -> list[Array]:
    latent, action, *scalars = (jnp.asarray(part) for part in acted[:-1])
    return [latent, action, jnp.stack(scalars, axis=1)]


def _packed(act: Callable[..., Acted]) -> Callable[..., Array]:
    """One array to wait for and to fetch, instead of seven."""
    return lambda *arguments: jnp.concatenate(_columns(act(*arguments)), axis=1)


def _packed_with_tries(act: Callable[..., tuple[Acted, Array, Array]]) -> Callable[..., Array]:
    """The same, followed by how many latents were rejected, and all latents."""

    def packed(*arguments: Array | Frozen) -> Array:
        acted, latents, rejected = act(*arguments)
        return jnp.concatenate([*_columns(acted), rejected[:, None], latents.reshape(len(rejected), -1)], axis=1)

    return packed
