"""A learner: a method on a problem, compiled. Arrays in, arrays out; it knows neither environments nor files."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cvflows.agents.base import Acted, Batch, Decoder, Problem, Settings, judged
from cvflows.agents.methods import Method
from cvflows.agents.sac import SAC
from cvflows.agents.td3 import TD3
from cvflows.errors import ArgumentError
from cvflows.maps.base import ActionMap

RULES: dict[str, Any] = {"sac": SAC, "td3": TD3, "ddpg": TD3}


class Learner:
    """`act` on observations, `update` on transitions.

    Random numbers follow from the seed, the count of acts and the count of updates, so that a learner whose `state` and
    counts are restored goes on as if it had never stopped.
    """

    def __init__(
        self, method: Method, settings: Settings, problem: Problem, map_: ActionMap | None = None, seed: int = 0
    ) -> None:
        if (method.decoder == "map") != (map_ is not None):
            raise ArgumentError("map_", f"{'a map' if method.decoder == 'map' else 'None'} for {method.name}", map_)
        self.method, self.settings, self.problem, self.map, self.seed = method, settings, problem, map_, seed
        decoder, self.frozen = Decoder.of(method, problem, map_)
        self.rule = RULES[method.rule](decoder, settings)
        self.state: Any = self.rule.init(seed)
        keys = jax.random.split(jax.random.key(seed))
        self._act = jax.jit(partial(_act, self.rule, keys[0]), static_argnums=4)
        self._judge = jax.jit(partial(judged, decoder))
        self._update = jax.jit(partial(_update, self.rule, keys[1]), donate_argnums=0)

    @property
    def row_width(self) -> int:
        """Numbers of one stored transition."""
        return 2 * self.problem.observation_dim + self.problem.action_dim + 2

    def act(self, observation: np.ndarray, count: int, *, explore: bool) -> Acted:
        """Latents and actions for observations (n, o); `count` numbers the call."""
        return self._act(self.state.actor, self.frozen, observation, np.uint32(count), explore)

    def act_randomly(self, observation: np.ndarray, rng: np.random.Generator) -> Acted:
        """Latents from the map's base distribution, or uniform in the box."""
        shape = (len(observation), self.problem.action_dim)
        normal = self.map is not None and self.map.base == "normal"
        latent = rng.standard_normal(shape) if normal else rng.uniform(-1, 1, shape)
        return self._judge(self.frozen, latent.astype(np.float32), observation)

    def update(self, rows: np.ndarray) -> dict[str, jax.Array]:
        """One step per batch of stored rows (batches, batch, width); the metrics of the last, still being computed."""
        self.state, metrics = self._update(self.state, self.frozen, rows)
        return metrics


def _act(rule: Any, key: Any, actor: Any, frozen: Any, observation: Any, count: Any, explore: bool) -> Acted:
    return rule.act(actor, frozen, observation, jax.random.fold_in(key, count), explore)


def _update(rule: Any, key: Any, state: Any, frozen: Any, rows: Any) -> tuple[Any, Any]:
    size = rule.decoder.problem.observation_dim

    def step(state: Any, rows: Any) -> tuple[Any, Any]:
        return rule.update(state, frozen, Batch.unpack(rows, size), jax.random.fold_in(key, state.updates))

    if rows.shape[0] == 1:
        return step(state, rows[0])
    state, metrics = jax.lax.scan(step, state, rows)
    return state, jax.tree.map(lambda values: jnp.mean(values), metrics)
