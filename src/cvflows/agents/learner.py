"""Learner: a method on a problem, compiled, with its state, its experience and its random numbers.

It knows neither environments nor files. Random numbers are drawn on the host, from one generator: that is faster than
in a compiled function, and a learner whose state, experience and generator are restored goes on as if never stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cvflows.agents.base import Acted, Algorithm, Metrics, Problem, State
from cvflows.agents.decoders import Decoder
from cvflows.agents.experience import Experience, Steps
from cvflows.agents.exploring import Exploration
from cvflows.agents.methods import Method
from cvflows.agents.rejection import AT_EVALUATION, TOLD, accepting, draw_preference
from cvflows.agents.settings import Settings
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
        tries = getattr(settings, "tries", 1)
        self.method, self.settings, self.problem, self.map = method, settings, problem, map_
        self._preferences = np.zeros((environments, TOLD if tries > 1 else 0), np.float32)
        told = Problem(problem.observation_dim + self._preferences.shape[1], problem.constraint, _reader(problem))
        decoder, self.frozen = method.decoder.make(told, map_, **method.options)
        self.algorithm: Algorithm = method.algorithm(decoder, settings, steps, environments)
        self.state: Any = self.algorithm.init(seed)
        self.experience: Experience = self.algorithm.experience()
        self.rng = np.random.default_rng([seed, 7])
        self.noise_dim, self._tries = problem.action_dim * tries, tries
        self.exploration = Exploration(environments, self.noise_dim, getattr(settings, "noise_correlation", 0.0))
        self._act, self._act_randomly = (
            jax.jit(_packed(accepting(act, tries), tries=True) if tries > 1 else _packed(act))
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


def _reader(problem: Problem) -> Callable[[Any], Any]:
    """How a context is read from an observation that further numbers may follow."""
    size, read = problem.observation_dim, problem.read
    return lambda observation: read(observation[:, :size]) if observation.shape[1] > size else read(observation)


def _act(algorithm: Algorithm, actor: Any, frozen: Any, observation: Any, noise: Any) -> Acted:
    return algorithm.choose(algorithm.actor(actor, observation), frozen, observation, noise)


def _random(decoder: Decoder, _: Any, frozen: Any, observation: Any, noise: Any) -> Acted:
    return decoder.act(frozen, decoder.random(noise), observation)


def _learn(algorithm: Algorithm, state: State, frozen: Any, data: Any, draws: Any) -> tuple[State, Metrics]:
    return algorithm.learn(state, frozen, data, draws)


def _packed(act: Callable[..., Any], tries: bool = False) -> Callable[..., jax.Array]:
    """One array to wait for and to fetch, instead of seven; with `tries`, what was rejected follows."""

    def packed(*arguments: Any) -> jax.Array:
        acted, *tried = act(*arguments) if tries else (act(*arguments),)
        latent, action, *scalars = acted[:-1]
        columns = [latent, action, jnp.stack(scalars, axis=1)]
        if tries:
            columns += [tried[1][:, None], tried[0].reshape(latent.shape[0], -1)]
        return jnp.concatenate(columns, axis=1)

    return packed
