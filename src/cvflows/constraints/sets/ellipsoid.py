"""Ellipsoid: a quadratic form about any point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from cvflows.constraints.base import Vector
from cvflows.constraints.forms import Cvxpy, Expression, Form, fixed
from cvflows.constraints.legacy_metric import QUADRATIC, LegacyRows, one_row
from cvflows.constraints.sets.named import NamedSet, assign
from cvflows.errors import ArgumentError


@dataclass(frozen=True)
class Ellipsoid(NamedSet):
    """(a-c)·Q(a-c) ≤ 1 for a symmetric positive semi-definite `matrix` Q and a `middle` c (0 by default)."""

    matrix: np.ndarray | Sequence[Sequence[float]]
    middle: Sequence[float] | None = None
    context_dim = 0
    convex = proven = True
    quadratic = True

    def __post_init__(self) -> None:
        matrix = np.asarray(self.matrix, float)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T):
            raise ArgumentError("matrix", "a symmetric square matrix", f"shape {matrix.shape}")
        if np.linalg.eigvalsh(matrix).min() < -1e-9 or not matrix.any():
            raise ArgumentError("matrix", "non-negative eigenvalues, not all zero", np.linalg.eigvalsh(matrix))
        middle = np.zeros(len(matrix)) if self.middle is None else np.asarray(self.middle, float)
        if middle.shape != (len(matrix),) or np.abs(middle).max() > 1:
            raise ArgumentError("middle", f"{len(matrix)} numbers within [-1,1]", middle)
        assign(self, "matrix", tuple(map(tuple, matrix.tolist())))
        assign(self, "middle", tuple(middle.tolist()))

    @property
    def action_dim(self) -> int:
        return len(self.matrix)

    def rows(self, x: Vector, a: Vector) -> Vector:
        offset = a - jnp.asarray(self.middle)
        return (offset @ jnp.asarray(self.matrix) @ offset - 1)[None]

    def centre(self, x: Vector) -> Vector:
        return jnp.asarray(self.middle)

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        values, vectors = np.linalg.eigh(np.asarray(self.matrix))
        root = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
        return fixed(cvxpy.norm(root @ (y - np.asarray(self.middle))) <= 1)

    def legacy_rows(self) -> LegacyRows:
        return one_row(1.0, QUADRATIC)
