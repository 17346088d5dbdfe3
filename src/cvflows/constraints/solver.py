"""The same projection and maximiser by cvxpy and Clarabel, one sample at a time: the reference to check against.

Needs the extra `solver`. Convex built-in sets only.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import singledispatch
from typing import Any

import jax.numpy as jnp
import numpy as np

from cvflows.constraints import sets
from cvflows.constraints.base import AbstractConstraint, Intersection, Reads
from cvflows.constraints.learned import LearnedConstraint
from cvflows.constraints.union import Union
from cvflows.errors import CVFlowsError

cvxpy: Any
try:
    import cvxpy
except ImportError as error:
    raise CVFlowsError("the reference solver needs cvxpy and Clarabel: pip install 'cvflows[solver]'") from error

Form = tuple[list[Any], Callable[[np.ndarray], None]]
"""cvxpy constraints on a variable, and a function that sets their parameters from a context."""


class UnionSolver:
    """The best of one reference solver per part of a union."""

    def __init__(self, union: Union) -> None:
        self.parts = [(part, ReferenceSolver(part)) for part in union.parts]

    def project(self, x: np.ndarray, a: np.ndarray) -> np.ndarray:
        """argmin ‖y - a‖² over C(x), for one sample."""
        return min(self._each("project", x, a), key=lambda y: float(np.sum((y - a) ** 2)))

    def maximise(self, x: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """argmax direction·y over C(x), for one sample."""
        return max(self._each("maximise", x, direction), key=lambda y: float(direction @ y))

    def _each(self, name: str, x: np.ndarray, vector: np.ndarray) -> list[np.ndarray]:
        found = []
        for part, solver in self.parts:
            own = x if part.context_dim else x[:0]
            try:
                found.append(solver.project(own, vector) if name == "project" else solver.maximise(own, vector))
            except CVFlowsError:
                continue  # the part is empty here
        if not found:
            raise CVFlowsError("Clarabel found no solution: every part of the union is empty")
        return found


class ReferenceSolver:
    """A parametrised problem over one convex set, compiled once by cvxpy and solved by Clarabel."""

    def __init__(self, constraint: AbstractConstraint, tolerance: float = 1e-10) -> None:
        self.variable = cvxpy.Variable(constraint.action_dim)
        self.action = cvxpy.Parameter(constraint.action_dim)
        limits, self._set_context = form(constraint, self.variable)
        limits = [*limits, self.variable <= 1, self.variable >= -1]
        self._project = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(self.variable - self.action)), limits)
        self._maximise = cvxpy.Problem(cvxpy.Maximize(self.action @ self.variable), limits)
        accuracy = {f"tol_{name}": tolerance for name in ("gap_abs", "gap_rel", "feas")}
        self._options = {"solver": cvxpy.CLARABEL, "warm_start": True, **accuracy}

    def project(self, x: np.ndarray, a: np.ndarray) -> np.ndarray:
        """argmin ‖y - a‖² over C(x), for one sample."""
        return self._solve(self._project, x, a)

    def maximise(self, x: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """argmax direction·y over C(x), for one sample."""
        return self._solve(self._maximise, x, direction)

    def _solve(self, problem: Any, x: np.ndarray, vector: np.ndarray) -> np.ndarray:
        self.action.value = np.asarray(vector, float)
        self._set_context(np.asarray(x, float))
        with warnings.catch_warnings():  # at 1e-10 Clarabel warns of digits it cannot promise
            warnings.simplefilter("ignore", UserWarning)
            problem.solve(**self._options)
        if self.variable.value is None:
            raise CVFlowsError(f"Clarabel found no solution: {problem.status}")
        return np.asarray(self.variable.value)


@singledispatch
def form(constraint: AbstractConstraint, y: Any) -> Form:
    """The set as cvxpy constraints on `y`."""
    raise CVFlowsError(f"no cvxpy form for {type(constraint).__name__}")


def _fixed(limits: list[Any]) -> Form:
    return limits, lambda x: None


@form.register
def _(constraint: Intersection, y: Any) -> Form:
    forms = [form(part, y) for part in constraint.parts]

    def set_context(x: np.ndarray) -> None:
        for part, (_, setter) in zip(constraint.parts, forms, strict=True):
            setter(x if part.context_dim else x[:0])

    return [limit for limits, _ in forms for limit in limits], set_context


@form.register
def _(constraint: Reads, y: Any) -> Form:
    limits, setter = form(constraint.part, y)
    return limits, lambda x: setter(x[list(constraint.indices)])


@form.register
def _(constraint: sets.Box, y: Any) -> Form:
    return _fixed([y >= np.asarray(constraint.low), y <= np.asarray(constraint.high)])


@form.register
def _(constraint: sets.Ball, y: Any) -> Form:
    return _fixed([cvxpy.norm(y) <= constraint.radius])


@form.register
def _(constraint: sets.Ellipsoid, y: Any) -> Form:
    values, vectors = np.linalg.eigh(np.asarray(constraint.matrix))
    root = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    return _fixed([cvxpy.norm(root @ (y - np.asarray(constraint.middle))) <= 1])


@form.register
def _(constraint: sets.MaxPower, y: Any) -> Form:
    weight = cvxpy.Parameter(constraint.dim)
    return [cvxpy.sum(cvxpy.pos(cvxpy.multiply(weight, y))) <= constraint.bound], _setter(weight)


@form.register
def _(constraint: sets.Orthoplex, y: Any) -> Form:
    weight = cvxpy.Parameter(constraint.dim)
    return [cvxpy.norm1(cvxpy.multiply(weight, y)) <= constraint.bound], _setter(weight)


@form.register
def _(constraint: sets.SinSquared, y: Any) -> Form:
    sine = cvxpy.Parameter(constraint.dim)
    return [cvxpy.norm(cvxpy.multiply(sine, y)) <= constraint.bound**0.5], _setter(sine, np.sin)


@form.register
def _(constraint: sets.Tip, y: Any) -> Form:
    # with p = a₁, q = a₁ + a₂: p² + 2pq cosθ + q² = cos²(θ/2)(p+q)² + sin²(θ/2)(p-q)²
    half = cvxpy.Parameter(2)
    both = cvxpy.hstack([2 * y[0] + y[1], -y[1]])
    return [cvxpy.norm(cvxpy.multiply(half, both)) <= constraint.bound**0.5], _setter(
        half, lambda x: np.array([np.cos(x[0] / 2), np.sin(x[0] / 2)])
    )


@form.register
def _(constraint: sets.MomentArm, y: Any) -> Form:
    normal = cvxpy.Parameter(6)
    return [normal @ y <= 1], _setter(normal, lambda x: np.asarray(constraint.normal(jnp.asarray(x))))


@form.register
def _(constraint: sets.HalfSpaces, y: Any) -> Form:
    return _half_spaces(constraint, constraint.count, y)


@form.register
def _(constraint: LearnedConstraint, y: Any) -> Form:
    return _half_spaces(constraint, len(constraint.error), y)


def _half_spaces(constraint: sets.HalfSpaces | LearnedConstraint, count: int, y: Any) -> Form:
    offset, normal = cvxpy.Parameter(count), cvxpy.Parameter((count, constraint.action_dim))

    def set_context(x: np.ndarray) -> None:
        offset.value, normal.value = (
            np.asarray(value, float) for value in constraint.offsets_and_normals(jnp.asarray(x, jnp.float32))
        )

    return [offset + normal @ y <= 0], set_context


@form.register
def _(constraint: sets.Sum, y: Any) -> Form:
    total = cvxpy.Parameter()
    limits = [cvxpy.sum(y) == total, y >= np.asarray(constraint.low), y <= np.asarray(constraint.high)]

    def set_context(x: np.ndarray) -> None:
        total.value = float(x[0]) if constraint.total is None else constraint.total

    return limits, set_context


def _setter(parameter: Any, transform: Callable[[Any], Any] = lambda x: x) -> Callable[[np.ndarray], None]:
    def set_context(x: np.ndarray) -> None:
        parameter.value = transform(x)

    return set_context
