"""Wrappers that keep actions allowed, for agents of any library.

| wrapper | the agent's action space | what the environment gets |
|---|---|---|
| `FeasibleActions` | the action box [-1,1]^d | the action, or the nearest allowed one |
| `LatentActions` | the latent box [-3,3]^d | the map's action, guarded in the same way |
| `AllowedOnly` | the action box [-1,1]^d | the action; a forbidden one is an error |
"""

from __future__ import annotations

from typing import SupportsFloat

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from cvflows.constraints.base import TOLERANCE, AbstractConstraint
from cvflows.constraints.guard import Guard, OnEmpty
from cvflows.envs.reading import Context, ObsT, check_actions, context_reader, entries, rewarded
from cvflows.envs.worlds import Info
from cvflows.errors import CVFlowsError
from cvflows.maps.base import ActionMap, support


class ForbiddenActionError(CVFlowsError, RuntimeError):
    """A forbidden action was about to reach an environment."""


Step = tuple[ObsT, SupportsFloat, bool, bool, Info]


class _Wrapper(gymnasium.Wrapper[ObsT, np.ndarray, ObsT, np.ndarray], gymnasium.utils.RecordConstructorArgs):
    """Keeps the context of the last observation and lets only allowed actions through."""

    def __init__(
        self,
        env: gymnasium.Env[ObsT, np.ndarray],
        constraint: AbstractConstraint,
        context: Context,
        on_empty: OnEmpty | None = None,
    ) -> None:
        super().__init__(env)
        check_actions(env.action_space, constraint)
        self.constraint, self.guard = constraint, Guard(constraint, on_empty)
        self._read = context_reader(env, constraint, context)
        self._x: list[float] | None = None

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[ObsT, Info]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._x = self._read(observation)
        return observation, info

    def _context(self) -> list[float]:
        if self._x is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        return self._x

    def _execute(self, wanted: np.ndarray) -> Step[ObsT]:
        """Take `wanted`, or what the guard puts in its place, and say in `info` what happened."""
        verdict = self.guard(self._context(), wanted)
        observation, reward, terminated, truncated, info = self.env.step(verdict.executed.copy())
        reward = rewarded(self.env, reward)
        self._x = self._read(observation)
        info = {
            **info,
            "cv": verdict.asked_violation,
            "cost": float(verdict.forbidden) + info.get("cost", 0.0),
            "projected": verdict.forbidden,
            "projection_distance": verdict.distance,
            "executed": verdict.executed,
            "executed_cv": verdict.executed_violation,
            "outcome": verdict.outcome,
        }
        return observation, reward, terminated, truncated, info


class FeasibleActions(_Wrapper[ObsT]):
    """Executes only allowed actions: those that are, as they are, others projected.

    **Arguments:**

    - `env`: with actions in [-1,1]^d (`gymnasium.wrappers.RescaleAction` brings any bounded box there).
    - `constraint`: the allowed actions.
    - `context`: how its context is read from an observation: indices, pairs (index, factor), or a function. By default
      nothing, or the whole observation where the sizes say so.
    - `on_empty`: what to execute where no action is allowed: `"raise"`, `"least"`, an action or a function of the
      context (see `Guard`).

    `info` gains `cv`, the violation of the action asked for; `cost`, 1 where it was forbidden (added to the
    environment's own); `projected`; `projection_distance`; `executed`, what the environment got; `executed_cv`, its
    violation; and `outcome`, how it was found (an `Outcome`).
    """

    def __init__(
        self,
        env: gymnasium.Env[ObsT, np.ndarray],
        constraint: AbstractConstraint,
        context: Context = None,
        on_empty: OnEmpty | None = None,
    ) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, constraint=constraint, context=context, on_empty=on_empty)
        super().__init__(env, constraint, context, on_empty)

    def step(self, action: object) -> Step[ObsT]:
        return self._execute(entries("action", action, self.constraint.action_dim))


class LatentActions(_Wrapper[ObsT]):
    """The agent acts in the latent box; `map_` turns latents into allowed actions, and a guard checks them.

    The box is [-3,3]^d, three standard deviations of a normal latent, or [-1,1]^d where the map's base is uniform.
    `info` gains what `FeasibleActions` reports, `executed` being the environment's action.
    """

    def __init__(
        self,
        env: gymnasium.Env[ObsT, np.ndarray],
        map_: ActionMap,
        context: Context = None,
        on_empty: OnEmpty | None = None,
    ) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, map_=map_, context=context, on_empty=on_empty)
        super().__init__(env, map_.constraint, context, on_empty)
        self.map = map_
        reach = support(map_.base)
        self.action_space = spaces.Box(-reach, reach, (map_.constraint.action_dim,), np.float32)
        self._parameters, structure = eqx.partition(map_, eqx.is_array)

        @jax.jit
        def forward(parameters: ActionMap, latent: jax.Array, x: jax.Array) -> jax.Array:
            return eqx.combine(parameters, structure).forward(jnp.clip(latent, -reach, reach), x)[0]

        self._forward = forward

    def step(self, action: object) -> Step[ObsT]:
        latent = entries("action", action, self.constraint.action_dim)
        x = np.array(self._context(), np.float32)
        return self._execute(np.asarray(self._forward(self._parameters, latent, x)))


class AllowedOnly(_Wrapper[ObsT]):
    """Refuses forbidden actions with an error instead of projecting them: a check of the caller."""

    def __init__(
        self, env: gymnasium.Env[ObsT, np.ndarray], constraint: AbstractConstraint, context: Context = None
    ) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, constraint=constraint, context=context)
        super().__init__(env, constraint, context)

    def step(self, action: object) -> Step[ObsT]:
        wanted, x = entries("action", action, self.constraint.action_dim), self._context()
        largest, violation = self.guard.judge(x, wanted.tolist())
        if largest > TOLERANCE:
            raise ForbiddenActionError(f"action {wanted} at context {x} violates the constraint by {violation:g}")
        return self._execute(wanted)
