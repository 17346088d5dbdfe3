"""Checks of an environment's spaces, and reading a constraint's context from its observations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import SupportsFloat, TypeVar, cast

import gymnasium
import jax
import numpy as np
from gymnasium import spaces

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.numbers import real_numbers
from cvflows.errors import ArgumentError, FaultyEnvironmentError

ObsT = TypeVar("ObsT")
ActT = TypeVar("ActT")
Reader = Callable[..., np.ndarray | jax.Array | Sequence[float]]
"""A function from an observation, or a batch of them, to the context."""
Context = Sequence[int] | Sequence[tuple[int, float]] | Reader | None
"""Indices of observation entries, pairs (index, factor), or a function; None: no entries, or all if the sizes agree."""


def entries(name: str, value: object, size: int) -> np.ndarray:
    """`value` as a new float32 vector of `size` finite entries."""
    if not (isinstance(value, np.ndarray) and value.dtype == np.float32 and type(value) is np.ndarray):
        value = real_numbers(name, value, f"{size} numbers").astype(np.float32)
    array = np.array(value)
    if array.shape != (size,):
        raise ArgumentError(name, f"shape ({size},)", array.shape)
    if not math.isfinite(sum(array.tolist())):
        raise ArgumentError(name, "finite numbers", array)
    return array


def is_vector(value: object, size: int) -> bool:
    """Whether it is a float64 vector of `size` entries, as most environments return; they may be NaN."""
    return type(value) is np.ndarray and value.dtype == np.float64 and value.shape == (size,)


def observed(env: gymnasium.Env[ObsT, ActT], observation: object, size: int) -> np.ndarray:
    """An observation as a float64 vector of `size` finite entries, or an error that names the environment."""
    try:
        array = np.asarray(observation, np.float64)
    except (TypeError, ValueError):
        raise FaultyEnvironmentError(f"{title(env)} returned an observation that is no array of numbers") from None
    if array.shape != (size,):
        raise FaultyEnvironmentError(f"{title(env)} returned an observation of shape {array.shape}, not ({size},)")
    if not math.isfinite(sum(array.tolist())) and not np.isfinite(array).all():
        wrong = np.flatnonzero(~np.isfinite(array)).tolist()
        raise FaultyEnvironmentError(f"{title(env)} returned NaN or infinity in observation entries {wrong}")
    return array


def rewarded(env: gymnasium.Env[ObsT, ActT], reward: object) -> float:
    """A reward as a finite float, or an error that names the environment."""
    try:
        number = float(cast(SupportsFloat, reward))
    except (TypeError, ValueError):
        raise FaultyEnvironmentError(f"{title(env)} returned a reward that is no number: {reward!r}") from None
    if not math.isfinite(number):
        raise FaultyEnvironmentError(f"{title(env)} returned the reward {number}")
    return number


def title(env: gymnasium.Env[ObsT, ActT] | gymnasium.vector.VectorEnv[ObsT, np.ndarray, np.ndarray]) -> str:
    """What to call an environment: its Gymnasium id, or its class."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def bounded_box(space: spaces.Space[ActT]) -> spaces.Box:
    """The action space, or an error unless it is a bounded box with one axis, of floating numbers."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise ArgumentError("env", "a Box action space with one axis", space)
    if not np.issubdtype(space.dtype, np.floating):
        raise ArgumentError("env", "an action space of floating numbers (rounding could leave the set)", space)
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise ArgumentError("env", "a bounded action space", space)
    return space


def check_actions(actions: spaces.Space[ActT], constraint: AbstractConstraint) -> None:
    """An error unless an environment's action space is a box [-1,1]^d of the constraint's size."""
    space = bounded_box(actions)
    if space.shape != (constraint.action_dim,):
        expected = f"action_dim {space.shape[0]}, that of the environment"
        raise ArgumentError("constraint", expected, constraint.action_dim)
    if not (np.all(space.low == -1) and np.all(space.high == 1)):
        expected = "actions within [-1,1]: wrap the environment in gymnasium.wrappers.RescaleAction(env, -1, 1)"
        raise ArgumentError("env", expected, space)


def context_reader(
    env: gymnasium.Env[ObsT, ActT], constraint: AbstractConstraint, context: Context
) -> Callable[[ObsT], list[float]]:
    """A function from an observation to the constraint's context, as a list of floats."""
    if callable(context):
        reader: Reader = context
        return lambda observation: context_vector(reader(observation), constraint.context_dim)
    pairs, total = context_pairs(env.observation_space, constraint.context_dim, context)

    def read(observation: ObsT) -> list[float]:
        values = observed(env, observation, total).tolist()
        return [values[index] * factor for index, factor in pairs]

    return read if pairs else lambda observation: []


def context_pairs(
    space: spaces.Space[ObsT], size: int, context: Sequence[int] | Sequence[tuple[int, float]] | None
) -> tuple[list[tuple[int, float]], int]:
    """The pairs (index, factor) that make a context of `size` entries, and the observation's size."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise ArgumentError("env", "observations in a Box with one axis, or a function `context`", space)
    (total,) = space.shape
    if context is None:
        if size not in (0, total):
            raise ArgumentError("context", f"indices of the {size} observation entries that make the context", None)
        context = range(size)
    pairs = [entry if isinstance(entry, tuple) else (int(entry), 1.0) for entry in context]
    if len(pairs) != size:
        raise ArgumentError("context", f"{size} indices, the context_dim", len(pairs))
    for index, _ in pairs:
        if not 0 <= index < total:
            raise ArgumentError("context", f"indices in [0, {total})", index)
    return pairs, total


def context_vector(value: object, size: int) -> list[float]:
    """What a function returned for a context, as `size` floats."""
    array = real_numbers("context", value, f"{size} numbers")
    if array.shape != (size,):
        raise ArgumentError("context", f"shape ({size},)", array.shape)
    return array.tolist()
