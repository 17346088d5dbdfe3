"""Wrappers that keep actions allowed, for agents of any library.

| wrapper | the agent's action space | what the environment gets |
|---|---|---|
| `FeasibleActions` | the action box [-1,1]^d | the action, or the nearest allowed one |
| `LatentActions` | the latent box [-3,3]^d | the map's action, guarded in the same way |
| `AllowedOnly` | the action box [-1,1]^d | the action; a forbidden one is an error |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, SupportsFloat

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from cvflows.constraints.base import TOLERANCE, AbstractConstraint, all_rows
from cvflows.constraints.hosted import hosted
from cvflows.constraints.project import project_samples
from cvflows.envs.reading import Context, Env, check_actions, context_reader, entries
from cvflows.envs.rollout import FaultyEnvironmentError
from cvflows.errors import CVFlowsError
from cvflows.maps.base import ActionMap, support


class ForbiddenActionError(CVFlowsError, RuntimeError):
    """A forbidden action was about to reach an environment."""


Step = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]


class _Guarded(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Keeps the context of the last observation and lets only allowed actions through."""

    def __init__(self, env: Env, constraint: AbstractConstraint, context: Context) -> None:
        super().__init__(env)
        check_actions(env, constraint)
        self.constraint = constraint
        self._read = context_reader(env, constraint, context)
        self._hosted, self._inspect = hosted(constraint), _inspector(constraint)
        self._x: list[float] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._x = self._read(observation)
        return observation, info

    def _context(self) -> list[float]:
        if self._x is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        return self._x

    def _judge(self, x: list[float], wanted: np.ndarray) -> tuple[bool, float]:
        """Whether an action is forbidden, and its violation. Python settles clear cases; JAX has the last word."""
        if self._hosted is not None:
            try:
                if self._hosted.inside(x, wanted.tolist()):
                    return False, 0.0
            except (ArithmeticError, ValueError):  # a division by zero or the like: JAX knows what it means
                pass
        largest, violation = np.asarray(self._inspect(np.array(x, np.float32), wanted)).tolist()
        if violation != violation:
            raise FaultyEnvironmentError(f"the constraint is NaN at context {x}: what does the environment return?")
        return largest > TOLERANCE, violation

    def _execute(self, wanted: np.ndarray, *, refuse: bool = False) -> Step:
        """Take `wanted`, or the nearest allowed action, and say in `info` what happened."""
        x = self._context()
        forbidden, violation = self._judge(x, wanted)
        if forbidden and refuse:
            raise ForbiddenActionError(f"action {wanted} at context {x} violates the constraint by {violation:g}")
        action, distance = wanted, 0.0
        if forbidden:
            found = project_samples(self.constraint, np.array(x, np.float32), wanted)
            action, distance = np.array(found.action), float(found.distance)
        observation, reward, terminated, truncated, info = self.env.step(action.copy())
        self._x = self._read(observation)
        info = {
            **info,
            "cv": violation,
            "cost": float(forbidden) + info.get("cost", 0.0),
            "projected": forbidden,
            "projection_distance": distance,
            "executed": action,
        }
        return observation, reward, terminated, truncated, info


class FeasibleActions(_Guarded):
    """Executes only allowed actions: those that are, as they are, others projected.

    **Arguments:**

    - `env`: with actions in [-1,1]^d (`gymnasium.wrappers.RescaleAction` brings any bounded box there).
    - `constraint`: the allowed actions.
    - `context`: how its context is read from an observation: indices, pairs (index, factor), or a function. By default
      nothing, or the whole observation where the sizes say so.

    `info` gains `cv`, the violation of the action asked for; `cost`, 1 where it was forbidden (added to the
    environment's own); `projected`; `projection_distance`; and `executed`, what the environment got.
    """

    def __init__(self, env: Env, constraint: AbstractConstraint, context: Context = None) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, constraint=constraint, context=context)
        super().__init__(env, constraint, context)

    def step(self, action: Any) -> Step:
        return self._execute(entries("action", action, self.constraint.action_dim))


class LatentActions(_Guarded):
    """The agent acts in the latent box; `map_` turns latents into allowed actions, and a guard checks them.

    The box is [-3,3]^d, three standard deviations of a normal latent, or [-1,1]^d where the map's base is uniform.
    `info` gains what `FeasibleActions` reports, `executed` being the environment's action.
    """

    def __init__(self, env: Env, map_: ActionMap, context: Context = None) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, map_=map_, context=context)
        super().__init__(env, map_.constraint, context)
        self.map = map_
        reach = support(map_.base)
        self.action_space = spaces.Box(-reach, reach, (map_.constraint.action_dim,), np.float32)
        self._parameters, structure = eqx.partition(map_, eqx.is_array)

        @jax.jit
        def forward(parameters: Any, latent: jax.Array, x: jax.Array) -> jax.Array:
            return eqx.combine(parameters, structure).forward(jnp.clip(latent, -reach, reach), x)[0]

        self._forward = forward

    def step(self, action: Any) -> Step:
        latent = entries("action", action, self.constraint.action_dim)
        x = np.array(self._context(), np.float32)
        return self._execute(np.asarray(self._forward(self._parameters, latent, x)))


class AllowedOnly(_Guarded):
    """Refuses forbidden actions with an error instead of projecting them: a check on whoever steps the environment."""

    def __init__(self, env: Env, constraint: AbstractConstraint, context: Context = None) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, constraint=constraint, context=context)
        super().__init__(env, constraint, context)

    def step(self, action: Any) -> Step:
        return self._execute(entries("action", action, self.constraint.action_dim), refuse=True)


@lru_cache
def _inspector(constraint: AbstractConstraint) -> Callable[[Any, Any], Any]:
    """(largest row, violation) of one action; one compilation for all environments with this constraint."""

    def inspect(x: jax.Array, a: jax.Array) -> jax.Array:
        rows = all_rows(constraint, x, a)
        return jnp.stack([jnp.max(rows), jnp.sum(jnp.maximum(rows, 0))])

    return jax.jit(inspect)
