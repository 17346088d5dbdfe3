"""A set as a convex program, for the reference solver. Needs no solver itself: sets are handed the module `cvxpy`."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

Expression = Any
"""A variable, parameter, expression or constraint of cvxpy, which has no types."""
Cvxpy = ModuleType


class Form(NamedTuple):
    """cvxpy constraints on a variable, and a function that sets their parameters from a context."""

    limits: list[Expression]
    set_context: Callable[[np.ndarray], None]


def fixed(*limits: Expression) -> Form:
    """Constraints that do not depend on the context."""
    return Form(list(limits), lambda x: None)


def setter(
    parameter: Expression, transform: Callable[[np.ndarray], np.ndarray] = np.asarray
) -> Callable[[np.ndarray], None]:
    """Sets `parameter` to `transform(x)`."""

    def set_context(x: np.ndarray) -> None:
        parameter.value = transform(x)

    return set_context


def half_spaces(
    cvxpy: Cvxpy,
    y: Expression,
    shape: tuple[int, int],
    offsets_and_normals: Callable[[Array], tuple[Array, Array]],
) -> Form:
    """offset + normal·y ≤ 0, with a normal of `shape` (rows, dim)."""
    offset, normal = cvxpy.Parameter(shape[0]), cvxpy.Parameter(shape)

    def set_context(x: np.ndarray) -> None:
        values = offsets_and_normals(jnp.asarray(x, jnp.float32))
        offset.value, normal.value = (np.asarray(value, float) for value in values)

    return Form([offset + normal @ y <= 0], set_context)
