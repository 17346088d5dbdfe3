"""Checks of an environment's spaces, and reading a constraint's context from its observations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.numbers import real_numbers
from cvflows.errors import ArgumentError, FaultyEnvironmentError

Env = gymnasium.Env[Any, Any]
Reader = Callable[[Any], Any]
Context = Sequence[int] | Sequence[tuple[int, float]] | Reader | None
"""Indices of observation entries, pairs (index, factor), a function, or None where the sizes say what is meant."""


def entries(name: str, value: Any, size: int) -> np.ndarray:
    """`value` as a new float32 vector of `size` finite entries."""
    if not (isinstance(value, np.ndarray) and value.dtype == np.float32 and type(value) is np.ndarray):
        value = real_numbers(name, value, f"{size} numbers").astype(np.float32)
    array = np.array(value)
    if array.shape != (size,):
        raise ArgumentError(name, f"shape ({size},)", array.shape)
    if not math.isfinite(sum(array.tolist())):
        raise ArgumentError(name, "finite numbers", array)
    return array


def observed(env: Env, observation: Any, size: int) -> np.ndarray:
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


def rewarded(env: Env, reward: Any) -> float:
    """A reward as a finite float, or an error that names the environment."""
    try:
        number = float(reward)
    except (TypeError, ValueError):
        raise FaultyEnvironmentError(f"{title(env)} returned a reward that is no number: {reward!r}") from None
    if not math.isfinite(number):
        raise FaultyEnvironmentError(f"{title(env)} returned the reward {number}")
    return number


def title(env: Env) -> str:
    """What to call an environment: its Gymnasium id, or its class."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def check_bounded(space: spaces.Space[Any]) -> None:
    """An error unless the action space is a bounded box with one axis, of floating numbers."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise ArgumentError("env", "a Box action space with one axis", space)
    if not np.issubdtype(space.dtype, np.floating):
        raise ArgumentError("env", "an action space of floating numbers (rounding could leave the set)", space)
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise ArgumentError("env", "a bounded action space", space)


def check_actions(env: Env, constraint: AbstractConstraint) -> None:
    """An error unless actions are a box [-1,1]^d of the constraint's size."""
    space = env.action_space
    check_bounded(space)
    if space.shape != (constraint.action_dim,):
        expected = f"action_dim {space.shape[0]}, that of the environment"  # type: ignore[index]
        raise ArgumentError("constraint", expected, constraint.action_dim)
    if not (np.all(space.low == -1) and np.all(space.high == 1)):  # type: ignore[attr-defined]
        expected = "actions within [-1,1]: wrap the environment in gymnasium.wrappers.RescaleAction(env, -1, 1)"
        raise ArgumentError("env", expected, space)


def context_reader(env: Env, constraint: AbstractConstraint, context: Context) -> Callable[[Any], list[float]]:
    """A function from an observation to the constraint's context, as a list of floats."""
    space, size = env.observation_space, constraint.context_dim
    if callable(context):
        reader: Reader = context
        return lambda observation: _vector("context", reader(observation), size)
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

    def read(observation: Any) -> list[float]:
        values = observed(env, observation, total).tolist()
        return [values[index] * factor for index, factor in pairs]

    return read if pairs else lambda observation: []


def _vector(name: str, value: Any, size: int) -> list[float]:
    numbers = real_numbers(name, value, f"{size} numbers")
    if numbers.shape != (size,):
        raise ArgumentError(name, f"shape ({size},)", numbers.shape)
    return numbers.tolist()
