"""The same wrappers for vector environments: one call of the guard for all rows.

| wrapper | the agent's actions | what the environments get |
|---|---|---|
| `FeasibleVectorActions` | (n, d) in the box [-1,1] | every row's action, or the nearest allowed one |
| `LatentVectorActions` | (n, d) in the latent box | the map's actions, guarded in the same way |

Where an episode has ended, Gymnasium's autoreset mode says what the next action of its row is: ignored (NEXT_STEP),
the first of a new episode (SAME_STEP), or an error (DISABLED). Rows whose action is ignored are not judged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space, iterate

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.guard import Guard, OnEmpty, Verdict
from cvflows.constraints.numbers import real_numbers
from cvflows.envs.reading import Context, ObsT, check_actions, context_pairs, context_vector, title
from cvflows.envs.worlds import Info
from cvflows.errors import ArgumentError, FaultyEnvironmentError
from cvflows.maps.base import ActionMap, support

Step = tuple[ObsT, np.ndarray, np.ndarray, np.ndarray, Info]
Envs = VectorEnv[ObsT, np.ndarray, np.ndarray]
if TYPE_CHECKING:
    _Base = VectorWrapper[ObsT, np.ndarray, ObsT, np.ndarray, np.ndarray]
else:  # older versions of Gymnasium do not subscript them

    class _Base(VectorWrapper, Generic[ObsT]):
        """Gymnasium's wrapper, with the type of its observations."""


class _VectorWrapper(_Base[ObsT]):
    """Keeps the contexts (n, context_dim) of the last observations and lets only allowed actions through."""

    def __init__(
        self,
        envs: Envs[ObsT],
        constraint: AbstractConstraint,
        context: Context,
        on_empty: OnEmpty | None,
    ) -> None:
        super().__init__(envs)
        check_actions(envs.single_action_space, constraint)
        mode = (envs.metadata or {}).get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            raise ArgumentError("envs", 'an AutoresetMode as metadata["autoreset_mode"]', mode)
        self.constraint, self.guard = constraint, Guard(constraint, on_empty)
        self._mode, self._read = mode, _contexts_reader(envs, constraint, context)
        self._x = np.zeros((envs.num_envs, constraint.context_dim))
        self._ended: np.ndarray | None = None  # (n,): episodes that have ended; None before the first reset

    def reset(self, *, seed: int | list[int | None] | None = None, options: Info | None = None) -> tuple[ObsT, Info]:
        some = (options or {}).get("reset_mask")  # the environments check it, and take it out of the options
        begun = np.array(some) if isinstance(some, np.ndarray) else np.ones(self.num_envs, bool)
        if self._ended is None and not begun.all():
            raise ResetNeeded("call reset once without reset_mask")
        observations, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type] # lists are seeds too
        self._x[begun] = self._read(observations, begun)
        self._ended = np.zeros(self.num_envs, bool) if self._ended is None else self._ended & ~begun
        return observations, infos

    def _acting(self) -> np.ndarray:
        """(n,): rows whose next action will be executed."""
        if self._ended is None:
            raise ResetNeeded("call reset before step")
        if self._mode is AutoresetMode.DISABLED and self._ended.any():
            rows = np.flatnonzero(self._ended).tolist()
            raise ResetNeeded(f'episodes of rows {rows} have ended: reset them with options={{"reset_mask": mask}}')
        return np.ones(self.num_envs, bool) if self._mode is AutoresetMode.SAME_STEP else ~self._ended

    def _given(self, actions: object) -> np.ndarray:
        """What the agent asks for, as a new float32 array (n, d) of finite numbers."""
        shape = (self.num_envs, self.constraint.action_dim)
        array = real_numbers("actions", actions, f"numbers of shape {shape}").astype(np.float32)
        if array.shape != shape:
            raise ArgumentError("actions", f"shape {shape}", array.shape)
        return array

    def _execute(self, wanted: np.ndarray) -> Step[ObsT]:
        """Take `wanted` (n, d), or what the guard puts in its place, and say in `infos` what happened."""
        acting = self._acting()
        verdicts = self.guard.batch(self._x[acting], wanted[acting])
        executed = np.zeros_like(wanted)  # ignored where a row does not act
        executed[acting] = [verdict.executed for verdict in verdicts] if verdicts else wanted[acting]
        observations, rewards, terminated, truncated, infos = self.env.step(executed.copy())
        rewards = np.asarray(rewards)
        if not np.isfinite(rewards).all():
            raise FaultyEnvironmentError(f"{title(self.env)} returned the rewards {rewards}")
        self._ended = np.asarray(terminated) | np.asarray(truncated)
        self._x = self._read(observations, np.ones(self.num_envs, bool))
        infos = {**infos, **_told(verdicts, acting, executed, _own_cost(infos, self._ended))}
        return observations, rewards, terminated, truncated, infos


def _told(verdicts: list[Verdict], acting: np.ndarray, executed: np.ndarray, cost: np.ndarray) -> Info:
    """The entries of `infos`: an array (n, …) each, and as Gymnasium has it a mask (n,) of the rows that have one."""

    def column(values: list[float], kind: type) -> np.ndarray:
        array: np.ndarray = np.zeros(len(acting), kind)
        array[acting] = values
        return array

    told = {
        "cv": column([verdict.asked_violation for verdict in verdicts], float),
        "cost": column([verdict.forbidden for verdict in verdicts], float) + cost,
        "projected": column([verdict.forbidden for verdict in verdicts], bool),
        "projection_distance": column([verdict.distance for verdict in verdicts], float),
        "executed": executed,
        "executed_cv": column([verdict.executed_violation for verdict in verdicts], float),
        "outcome": column([verdict.outcome for verdict in verdicts], int),
    }
    return {**told, **{f"_{name}": acting.copy() for name in told}}


def _own_cost(infos: Info, ended: np.ndarray) -> np.ndarray:
    """(n,): what the environments report as `cost` of this step; with SAME_STEP, that of a last step is elsewhere."""
    cost = np.asarray(infos.get("cost", np.zeros(len(ended))), float)
    last = infos.get("final_info")
    if not isinstance(last, dict):
        return cost
    return np.where(ended, np.asarray(last.get("cost", np.zeros(len(ended))), float), cost)


class FeasibleVectorActions(_VectorWrapper[ObsT]):
    """`FeasibleActions` for a `gymnasium.vector.VectorEnv`: executes only allowed actions, others are projected.

    **Arguments:**

    - `envs`: n environments with actions in [-1,1]^d (`gymnasium.wrappers.vector.RescaleAction` brings others there).
    - `constraint`, `on_empty`: as in `FeasibleActions`; with `"raise"`, no environment takes a step.
    - `context`: indices or pairs of observation entries, or a function from *one* row's observation (an array, or a
      dictionary where the space is one) to its context.

    `infos` gains `cv`, `cost`, `projected`, `projection_distance`, `executed`, `executed_cv` and `outcome`, as arrays
    (n, …) about the step just taken, also where an episode ended in it. Masks such as `_cv` are False where a row was
    reset instead of stepped.
    """

    def __init__(
        self,
        envs: Envs[ObsT],
        constraint: AbstractConstraint,
        context: Context = None,
        on_empty: OnEmpty | None = None,
    ) -> None:
        super().__init__(envs, constraint, context, on_empty)

    def step(self, actions: object) -> Step[ObsT]:
        return self._execute(self._given(actions))


class LatentVectorActions(_VectorWrapper[ObsT]):
    """`LatentActions` for a `gymnasium.vector.VectorEnv`: latents (n, d) become allowed actions, which a guard checks.

    Arguments and `infos` are those of `FeasibleVectorActions`, with a map in place of its constraint.
    """

    def __init__(
        self, envs: Envs[ObsT], map_: ActionMap, context: Context = None, on_empty: OnEmpty | None = None
    ) -> None:
        super().__init__(envs, map_.constraint, context, on_empty)
        self.map, reach = map_, support(map_.base)
        self.single_action_space = spaces.Box(-reach, reach, (map_.constraint.action_dim,), np.float32)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._parameters, structure = eqx.partition(map_, eqx.is_array)

        @jax.jit
        def forward(parameters: ActionMap, latents: jax.Array, x: jax.Array) -> jax.Array:
            one = eqx.combine(parameters, structure)
            return jax.vmap(lambda latent, x: one.forward(jnp.clip(latent, -reach, reach), x)[0])(latents, x)

        self._forward = forward

    def step(self, actions: object) -> Step[ObsT]:
        latents = self._given(actions)
        return self._execute(np.asarray(self._forward(self._parameters, latents, self._x.astype(np.float32))))


def _contexts_reader(
    envs: Envs[ObsT], constraint: AbstractConstraint, context: Context
) -> Callable[[ObsT, np.ndarray], np.ndarray]:
    """A function from observations and a mask (n,) of rows to the contexts (rows, context_dim) of these, float64."""
    size = constraint.context_dim
    if callable(context):
        function = context

        def call(observations: ObsT, rows: np.ndarray) -> np.ndarray:
            each = iterate(envs.observation_space, observations)
            found = [context_vector(function(one), size) for one, asked in zip(each, rows, strict=True) if asked]
            return np.array(found).reshape(-1, size)

        return call
    pairs, total = context_pairs(envs.single_observation_space, size, context)
    indices, factors = [index for index, _ in pairs], np.array([factor for _, factor in pairs])

    def read(observations: ObsT, rows: np.ndarray) -> np.ndarray:
        array = np.asarray(observations, np.float64)
        if array.shape != (envs.num_envs, total):
            shape = f"{array.shape}, not ({envs.num_envs}, {total})"
            raise FaultyEnvironmentError(f"{title(envs)} returned observations of shape {shape}")
        chosen = array[rows]
        if not np.isfinite(chosen).all():
            wrong = np.flatnonzero(rows)[~np.isfinite(chosen).all(axis=1)].tolist()
            raise FaultyEnvironmentError(f"{title(envs)} returned NaN or infinity in the observations of rows {wrong}")
        return chosen[:, indices] * factors

    return read if pairs else lambda observations, rows: np.zeros((int(rows.sum()), 0))
