"""Sets that an equality makes thin, solved in double precision.

|h(x,a)| ≤ ε with ε = 1e-6 leaves a slab about as thick as the rounding of h in float32: an interior-point method loses
its way in it, and a landing cannot tell inside from outside. In float64 the same methods have nine more digits. The
optimum is rounded to float32, which environments expect, entry by entry to the neighbour that keeps the rows low.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import zero_from_primal
from jaxtyping import Array

from cvflows.constraints.arrays import Columns, Contexts, Matrices, Rows, Scalars, Slopes, Vector
from cvflows.constraints.columns import AbstractSet, AbstractShape, ColumnSet
from cvflows.constraints.precision import double_precision, evaluate_in_double, trace_in_double

Solution = TypeVar("Solution")
NEIGHBOURS = (-8, -4, -2, -1, 1, 2, 4, 8)
"""Units in the last place by which an entry may move when a solution is rounded."""
PASSES = 2


@dataclass(frozen=True)
class Widened(AbstractSet):
    """A set of which only the rows are known, and these are traced in float64, their constants included."""

    part: AbstractSet
    convex: bool = True

    @property
    def action_dim(self) -> int:
        return self.part.action_dim

    @property
    def context_dim(self) -> int:
        return self.part.context_dim

    def rows(self, x: Vector, a: Vector) -> Vector:
        return evaluate_in_double(trace_in_double(self.part.rows, self.context_dim, self.action_dim), x, a)

    def bounds(self, x: Vector) -> tuple[Vector, Vector]:
        return self.part.bounds(x)

    def centre(self, x: Vector) -> Vector:
        return self.part.centre(x)

    def shape(self, x: Vector) -> AbstractShape:
        return self.part.shape(x)

    @property
    def thin(self) -> bool:
        return True


@lru_cache
def widened(constraint: AbstractSet) -> Widened | None:
    """The set for `in_double`, if it is convex, has an equality among its rows, and no closed form.

    None too for a function that computes in single precision by itself, or that JAX cannot lower in both at once.
    """
    if not constraint.convex or not constraint.thin:
        return None
    if not jax.eval_shape(constraint.shape, jnp.zeros(constraint.context_dim)).only_rows:
        return None
    found = Widened(constraint)

    def expand(here: ColumnSet, a: Columns) -> tuple[Rows, Slopes, Matrices]:
        return here.expand(a, here.rows(a))

    columns = [jax.ShapeDtypeStruct((size, 1), jnp.float32) for size in (constraint.context_dim, constraint.action_dim)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # JAX's, where it would go back to float32
        try:
            jax.jit(lambda x, a: in_double(expand, found, x, a)).lower(*columns)
        except (TypeError, ValueError, UserWarning):
            return None
    return found


def in_double(solve: Callable[[ColumnSet, Columns], Solution], wide: Widened, x: Contexts, a: Columns) -> Solution:
    """`solve(set, a)` in float64, for the sets of contexts `x`, with its results in float32 and without a gradient.

    JAX transforms a trace outside the context that made it, where it would quietly go back to float32. So nothing here
    is transformed: a batch under `vmap` becomes further columns, and tangents are zero.
    """

    @custom_vmap
    def solve_columns(x: Contexts, a: Columns) -> Solution:
        with double_precision():
            columns = [lax.convert_element_type(single, jnp.float64) for single in (x, a)]
            return jax.tree.map(_narrowed, solve(ColumnSet.at(wide, columns[0]), columns[1]))

    @solve_columns.def_vmap
    def _(count: int, batched: Sequence[bool], *both: Array) -> tuple[Solution, Solution]:
        stacks = [one if is_stack else jnp.stack([one] * count) for one, is_stack in zip(both, batched, strict=True)]
        found = solve_columns(*(jnp.moveaxis(stack, 0, -1).reshape(stack.shape[1], -1) for stack in stacks))
        split = jax.tree.map(lambda leaf: jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], -1, count), -1, 0), found)
        return split, jax.tree.map(lambda _: True, split)

    isolated = jax.custom_jvp(solve_columns)

    @isolated.defjvp
    def _(columns: tuple[Array, Array], _: tuple[Array, Array]) -> tuple[Solution, Solution]:
        found = isolated(*columns)
        return found, jax.tree.map(zero_from_primal, found)

    return isolated(x, a)


def _narrowed(array: Array) -> Array:
    return lax.convert_element_type(array, jnp.float32) if array.dtype == jnp.float64 else array


def round_inside(here: ColumnSet, y: Columns) -> Columns:
    """The float32 numbers near `y`, in float64, whose largest row is least where rounding alone would leave the set."""

    def rounded(y: Columns) -> Columns:
        single = lax.convert_element_type(y, jnp.float32)
        return jnp.clip(lax.convert_element_type(single, jnp.float64), here.low, here.high)

    def worst(y: Columns) -> Scalars:
        return jnp.max(here.rows(y), axis=0)

    steps = jnp.asarray(NEIGHBOURS * PASSES, y.dtype) * 2.0**-23
    moves = (steps[:, None, None] * jnp.eye(len(y), dtype=y.dtype)[None]).reshape(-1, len(y), 1)

    def try_move(state: tuple[Columns, Scalars], move: Array) -> tuple[tuple[Columns, Scalars], None]:
        near, least = state
        tried = rounded(near * (1 + move))
        value = worst(tried)
        better = (least > 0) & (value < least)
        return (jnp.where(better[None], tried, near), jnp.where(better, value, least)), None

    near = rounded(y)
    return lax.scan(try_move, (near, worst(near)), moves)[0][0]
