"""A learner: a method on a problem, compiled. Arrays in, arrays out; it knows neither environments nor files."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cvflows.agents.accepting import accepting
from cvflows.agents.base import Batch, Problem, Settings
from cvflows.agents.decoding import Acted, Decoder, judged
from cvflows.agents.methods import Method
from cvflows.agents.networks import apply, apply_on_host
from cvflows.agents.sac import SAC
from cvflows.agents.td3 import TD3
from cvflows.errors import ArgumentError, look_up
from cvflows.maps.base import ActionMap

SCALARS = 5
FEW = 8
"""Observations for which the actor is computed on the host."""
RULES: dict[str, Any] = {"sac": SAC, "td3": TD3, "ddpg": TD3}


class Learner:
    """`act` on observations, `update` on transitions.

    Noise is drawn on the host, from a generator that the caller owns (and can save): that is faster than in a compiled
    function, and a learner whose `state` and generator are restored goes on as if it had never stopped.
    """

    def __init__(
        self, method: Method, settings: Settings, problem: Problem, map_: ActionMap | None = None, seed: int = 0
    ) -> None:
        if (method.decoder == "map") != (map_ is not None):
            raise ArgumentError("map_", f"{'a map' if method.decoder == 'map' else 'None'} for {method.name}", map_)
        self.method, self.settings, self.problem, self.map = method, settings, problem, map_
        decoder, self.frozen = Decoder.of(method, problem, map_)
        self.rule = look_up("rule", method.rule, RULES)(decoder, settings)
        self.state: Any = self.rule.init(seed)
        self._act, self._act_randomly = (
            jax.jit(_packed(accepting(act, method.tries), tries=True) if method.tries > 1 else _packed(act))
            for act in (partial(_act, self.rule), partial(_random, decoder))
        )
        self._decide = jax.jit(_packed(partial(_act, self.rule)))
        self._choose = jax.jit(_packed(self.rule.choose))
        self._update = jax.jit(partial(_update, self.rule), donate_argnums=0)

    @property
    def row_width(self) -> int:
        """Numbers of one stored transition."""
        return 2 * self.problem.observation_dim + self.problem.action_dim + 2

    @property
    def noise_dim(self) -> int:
        """Numbers of noise per observation."""
        return self.problem.action_dim * self.method.tries

    def act(self, observation: np.ndarray, noise: np.ndarray | None) -> Acted:
        """Latents and actions for observations (n, o): exploring with normal `noise` (n, `noise_dim`), or not."""
        if len(observation) <= FEW and (noise is None or self.method.tries == 1):
            output = apply_on_host(np.asarray(self.state.actor), self.rule.actor_sizes, observation)
            return self._unpacked(self._choose(output, self.frozen, observation, noise))
        act = self._decide if noise is None else self._act
        return self._unpacked(act(self.state.actor, self.frozen, observation, noise))

    def act_randomly(self, observation: np.ndarray, noise: np.ndarray) -> Acted:
        """Latents of the map's base distribution, or uniform in the box, made from normal `noise` (n, `noise_dim`)."""
        return self._unpacked(self._act_randomly(self.state.actor, self.frozen, observation, noise))

    def _unpacked(self, columns: jax.Array) -> Acted:
        table, d = np.asarray(columns), self.problem.action_dim
        end = 2 * d + SCALARS
        acted = Acted(table[:, :d], table[:, d : 2 * d], *table[:, 2 * d : end].T)
        if table.shape[1] == end:
            return acted
        tried = table[:, end + 1 :].reshape(len(table), -1, d)
        return acted._replace(rejected=[some[: int(count)] for some, count in zip(tried, table[:, end], strict=True)])

    def standardise(self, observations: np.ndarray) -> None:
        """From now on networks see observations relative to the mean and spread of these (n, o)."""
        self.state = self.rule.standardise(self.state, observations)

    def update(self, rows: np.ndarray, rng: np.random.Generator) -> dict[str, jax.Array]:
        """One step per batch of stored rows (batches, batch, width); their mean metrics, still being computed."""
        noise = rng.standard_normal((len(rows), 2, rows.shape[1], self.problem.action_dim), np.float32)
        self.state, metrics = self._update(self.state, self.frozen, rows, noise)
        return metrics


def _act(rule: Any, actor: Any, frozen: Any, observation: Any, noise: Any) -> Acted:
    return rule.choose(apply(actor, rule.actor_sizes, observation), frozen, observation, noise)


def _random(decoder: Decoder, _: Any, frozen: Any, observation: Any, noise: Any) -> Acted:
    latent = noise if decoder.normal else jax.scipy.special.erf(noise / jnp.sqrt(2.0))  # uniform on [-1,1]
    return judged(decoder, frozen, latent, observation)


def _packed(act: Any, tries: bool = False) -> Any:
    """One array to wait for and to fetch, instead of seven; with `tries`, what was rejected follows."""

    def packed(*arguments: Any) -> jax.Array:
        acted, *tried = act(*arguments) if tries else (act(*arguments),)
        latent, action, *scalars = acted[:-1]
        columns = [latent, action, jnp.stack(scalars, axis=1)]
        if tries:
            columns += [tried[1][:, None], tried[0].reshape(latent.shape[0], -1)]
        return jnp.concatenate(columns, axis=1)

    return packed


def _update(rule: Any, state: Any, frozen: Any, rows: Any, noise: Any) -> tuple[Any, Any]:
    size = rule.decoder.problem.observation_dim

    def step(state: Any, inputs: tuple[Any, Any]) -> tuple[Any, Any]:
        return rule.update(state, frozen, Batch.unpack(inputs[0], size), inputs[1])

    if rows.shape[0] == 1:
        return step(state, (rows[0], noise[0]))
    state, metrics = jax.lax.scan(step, state, (rows, noise))
    return state, jax.tree.map(jnp.mean, metrics)
