"""Judge: whether an action is allowed, in double precision, one at a time or many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import jax
import numpy as np
from jaxtyping import Array

from cvflows.constraints.base import AbstractConstraint, all_rows
from cvflows.constraints.precision import batch_in_double
from cvflows.constraints.scalar import scalar_rows
from cvflows.errors import FaultyEnvironmentError


class Judge:
    """The rows of a constraint in float64: in Python where they can be written so, else by JAX.

    A function that insists on single precision, and so cannot be traced in float64, is judged in single precision.
    """

    def __init__(self, constraint: AbstractConstraint) -> None:
        self.constraint = constraint
        self._written = scalar_rows(constraint)
        self._many: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None

    def is_inside(self, x: Sequence[float], a: Sequence[float]) -> bool:
        """Whether every row is known, at no cost, to be ≤ 0. False says nothing: ask for the rows."""
        if self._written is None:
            return False
        try:
            return self._written.inside(x, a)
        except (ArithmeticError, ValueError):
            return False

    def rows(self, x: Sequence[float], a: Sequence[float]) -> list[float]:
        """Every row, those of the action box last."""
        if self._written is not None:
            try:
                return self._written.rows(x, a)
            except (ArithmeticError, ValueError):  # a division by zero or the like: JAX knows what it means
                pass
        return self.many(np.asarray(x)[None], np.asarray(a)[None])[0].tolist()

    def many(self, x: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Rows (n, rows) of many actions (n, dim) at contexts (n, context_dim), or at one for all."""
        if self._many is None:
            self._many = self._compiled()
        return self._many(np.broadcast_to(x, (len(a), self.constraint.context_dim)), a)

    def _compiled(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        def rows(x: Array, a: Array) -> Array:
            return all_rows(self.constraint, x, a)

        try:
            return batch_in_double(rows, self.constraint.context_dim, self.constraint.action_dim)
        except TypeError:
            single = jax.jit(jax.vmap(rows))
            return lambda x, a: np.asarray(single(np.asarray(x, np.float32), np.asarray(a, np.float32)), np.float64)

    def __call__(self, x: Sequence[float], a: Sequence[float]) -> tuple[float, float]:
        """The largest row and the violation Σ max(row, 0); an error where a row is NaN."""
        rows = self.rows(x, a)
        violation = sum(max(row, 0.0) if row == row else row for row in rows)
        if violation != violation:
            raise FaultyEnvironmentError(
                f"the constraint is NaN at context {list(x)} and action {list(a)}: "
                "is it defined there, and what does the environment return?"
            )
        return max(rows), violation


@lru_cache
def judge_of(constraint: AbstractConstraint) -> Judge:
    """The judge of a constraint: one compilation for all who ask."""
    return Judge(constraint)
