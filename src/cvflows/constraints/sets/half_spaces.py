"""HalfSpaces: several linear limits, which the context holds or a function computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array

from cvflows.constraints.base import Vector
from cvflows.constraints.forms import Cvxpy, Expression, Form, half_spaces
from cvflows.constraints.legacy_metric import LegacyRows, linear_rows
from cvflows.constraints.sets.named import SizedSet, assign
from cvflows.constraints.shapes.affine import Affine
from cvflows.constraints.trace import check_indices
from cvflows.errors import ArgumentError, dimension


@dataclass(frozen=True)
class HalfSpaces(SizedSet):
    """c_i + w_i·a ≤ 0 for `count` rows. May be empty: projection then gives the least-violating action and says so.

    `row_function(x)` returns (c, w) of shapes (count,) and (count, dim). Without it, the context itself holds them:
    x = (c, w flattened), of size count·(1 + dim).
    """

    dim: int
    count: int
    row_function: Callable[[Array], tuple[Array, Array]] | None = None
    context_dim: int = -1

    def __post_init__(self) -> None:
        assign(self, "dim", dimension("dim", self.dim))
        assign(self, "count", dimension("count", self.count))
        if self.row_function is None:
            assign(self, "context_dim", self.count * (1 + self.dim))
            return
        assign(self, "context_dim", dimension("context_dim", self.context_dim, least=0))
        x = jnp.zeros(self.context_dim)
        check_indices(f"`row_function`(x of shape ({self.context_dim},))", jax.make_jaxpr(self.row_function)(x))
        offset, normal = self.row_function(x)
        shapes = jnp.shape(offset), jnp.shape(normal)
        if shapes != ((self.count,), (self.count, self.dim)):
            raise ArgumentError("row_function", f"shapes ({self.count},) and ({self.count}, {self.dim})", shapes)

    def offsets_and_normals(self, x: Vector) -> tuple[Array, Array]:
        """(c, w)."""
        if self.row_function is not None:
            return self.row_function(x)
        return x[: self.count], x[self.count :].reshape(self.count, self.dim)

    def rows(self, x: Vector, a: Vector) -> Vector:
        offset, normal = self.offsets_and_normals(x)
        return offset + jnp.sum(normal * a[None], axis=1)

    def shape(self, x: Vector) -> Affine:
        return Affine(*self.offsets_and_normals(x))

    def arguments(self) -> dict[str, object] | None:
        return {"dim": self.dim, "count": self.count} if self.row_function is None else None

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        return half_spaces(cvxpy, y, (self.count, self.dim), self.offsets_and_normals)

    def legacy_rows(self) -> LegacyRows:
        return linear_rows(self.count)
