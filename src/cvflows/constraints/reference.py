"""The same projection and maximiser by cvxpy and Clarabel, one sample at a time: the reference to check against.

Needs the extra `solver`, and sets that state their `reference_form`: the convex ones known by name, and learned ones.
"""

from __future__ import annotations

import warnings

import numpy as np

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.forms import Cvxpy, Expression
from cvflows.constraints.union import Union
from cvflows.errors import CVFlowsError, MissingExtraError


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
        cvxpy = _import_cvxpy()
        self.variable = cvxpy.Variable(constraint.action_dim)
        self.action = cvxpy.Parameter(constraint.action_dim)
        limits, self._set_context = constraint.reference_form(cvxpy, self.variable)
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

    def _solve(self, problem: Expression, x: np.ndarray, vector: np.ndarray) -> np.ndarray:
        self.action.value = np.asarray(vector, float)
        self._set_context(np.asarray(x, float))
        with warnings.catch_warnings():  # at 1e-10 Clarabel warns of digits it cannot promise
            warnings.simplefilter("ignore", UserWarning)
            problem.solve(**self._options)
        if self.variable.value is None:
            raise CVFlowsError(f"Clarabel found no solution: {problem.status}")
        return np.asarray(self.variable.value)


def _import_cvxpy() -> Cvxpy:
    try:
        import cvxpy
    except ImportError:
        raise MissingExtraError("the reference solver", "cvxpy and Clarabel", "solver") from None
    return cvxpy
