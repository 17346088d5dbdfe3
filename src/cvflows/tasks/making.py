"""Making environments for tasks, and tasks from environments."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import RescaleAction

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.contexts import ContextDistribution, Uniform
from cvflows.constraints.guard import OnEmpty
from cvflows.constraints.ranges import Limits
from cvflows.envs.messages import hear_mujoco
from cvflows.envs.reading import Reader, bounded_box, context_reader, title
from cvflows.envs.worlds import Env
from cvflows.errors import ArgumentError
from cvflows.tasks.base import Task

Maker = str | Callable[..., Env]
"""A Gymnasium id, "module:function", or a function that makes an environment."""


def make(maker: Maker, settings: Mapping[str, object], render_mode: str | None) -> Env:
    """An environment from a Gymnasium id, a "module:function" or a function, its actions rescaled to [-1,1]."""
    options = {**settings, **({"render_mode": render_mode} if render_mode else {})}
    if render_mode:
        from cvflows.envs.rendering import prepare

        prepare()
    if isinstance(maker, str) and ":" in maker:
        module, _, function = maker.partition(":")
        make_one: Callable[..., Env] = getattr(importlib.import_module(module), function)
    else:
        make_one = partial(gymnasium.make, maker) if isinstance(maker, str) else maker
    hear_mujoco(maker)
    env = make_one(**options)
    box = bounded_box(env.action_space)
    if np.all(box.low == -1) and np.all(box.high == 1):
        return env
    return RescaleAction(env, np.float32(-1), np.float32(1))


def from_env(
    env: object,
    constraint: AbstractConstraint | None = None,
    context: Sequence[int] | Reader | None = None,
    *,
    limits: Limits | None = None,
    contexts: ContextDistribution | None = None,
    on_empty: OnEmpty | None = None,
    name: str = "custom",
) -> Task:
    """A task from an environment of your own.

    **Arguments:**

    - `env`: a Gymnasium id, a function that makes an environment, or one with a `spec` from which others are made. Its
      actions are a bounded box; the constraint is on actions rescaled to [-1,1].
    - `constraint`: the allowed actions. Or `limits`: the states that must not be left (`Ranges` of observation
      entries).
    - `context`: indices of the observation entries that the constraint reads, or a function of an observation (last
      axis) to a context; by default no entries or all of them, where the sizes agree.
    - `contexts`: p_S; by default the contexts that random allowed actions lead to.
    - `on_empty`: what is executed where no action is allowed: `"raise"`, `"least"`, an action or a function of the
      context (see `Guard`).
    """
    maker = _maker(env)
    made = make(maker, {}, None)
    space = made.observation_space
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise ArgumentError("env", "observations in a Box with one axis", space)
    (total,), (dim,) = space.shape, bounded_box(made.action_space).shape
    if (constraint is None) == (limits is None):
        raise ArgumentError("constraint", "either this or `limits`", "both" if limits else "neither")
    described = Task(
        name=name,
        environment=title(made),
        description="given",
        formula=str(limits or constraint),
        action_dim=dim,
        observation_dim=total,
        maker=maker,
        on_empty=on_empty,
        family="custom",
    )
    made.close()
    if limits is not None:
        if limits.largest_index >= total:
            raise ArgumentError("limits", f"indices in [0, {total})", limits.largest_index)
        reads = tuple((index, 1.0) for index in range(total))
        return replace(described, limits=limits, reads=reads, distribution=None)
    assert constraint is not None
    if constraint.action_dim != dim:
        raise ArgumentError("constraint", f"action_dim {dim}, that of the environment", constraint.action_dim)
    context_reader(made, constraint, context)  # checks indices
    size = constraint.context_dim
    if contexts is not None and contexts.size != size:
        raise ArgumentError("contexts", f"{size} entries, the context_dim", contexts.size)
    whole = context if context is not None else range(size)
    return replace(
        described,
        allowed=constraint,
        reads=whole if callable(whole) else tuple((int(index), 1.0) for index in whole),
        distribution=contexts if size else Uniform(0, -1.0, 1.0),
        convex=constraint.convex,
        star_shaped=constraint.convex,
    )


def _maker(env: object) -> Maker:
    """What makes further environments like this one."""
    if not isinstance(env, gymnasium.Env):
        if isinstance(env, str) or callable(env):
            return env
        raise ArgumentError("env", "a Gymnasium environment, its id, or a function that makes it", type(env).__name__)
    spec = env.spec
    if spec is None:
        expected = "an environment made by gymnasium.make, or a function that makes one (others must be made like it)"
        raise ArgumentError("env", expected, f"{type(env.unwrapped).__name__} without a spec")

    def make_another(render_mode: str | None = None) -> Env:
        return gymnasium.make(spec, render_mode=render_mode)

    return make_another
