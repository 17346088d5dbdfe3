"""Shape: what a set tells about the form of its rows, and what can be computed from it.

Every question has an answer for sets of which only the rows are known: an interior-point method, a search, a bisection.
A shape overrides those that it answers in closed form, and leaves the others to `super()`. Nothing else in the package
asks which shape a set has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cvflows.constraints import interior
from cvflows.constraints.arrays import Codes, Columns, Rows, Scalar, Vector
from cvflows.constraints.columns import AbstractSet, AbstractShape, ColumnSet, Solved
from cvflows.constraints.oracle import maximise_any, maximise_convex, unit
from cvflows.constraints.project import nearest_to, project_any, project_convex
from cvflows.constraints.search import search
from cvflows.constraints.shapes.exits import KEEP, Index, root, searched_exit, within


class Equality(NamedTuple):
    """|normal·a - offset| ≤ margin, with `normal` of shape (dim,)."""

    normal: Vector
    offset: Scalar
    margin: float


class Shape(AbstractShape):
    """The form of a set's rows: for one context, or in columns where it is handed `here`, the set in columns."""

    @property
    def iterative(self) -> bool:
        return True

    @property
    def only_rows(self) -> bool:
        return False

    def project(self, here: ColumnSet, a: Columns) -> Solved:
        return project_convex(here, a) if here.constraint.convex else project_any(here, a)

    def maximise(self, here: ColumnSet, direction: Columns) -> tuple[Columns, Codes]:
        c, _ = unit(direction)
        return maximise_convex(here, c) if here.constraint.convex else maximise_any(here, c)

    def margin(self, here: ColumnSet, a: Columns) -> Rows:
        terms = jnp.sum(jnp.abs(interior.jacobian(here.rows, a) * a[None]), axis=1)
        return rounding(a) * (jnp.abs(here.rows(jnp.zeros_like(a))) + jnp.where(jnp.isfinite(terms), terms, 1.0))

    def centre(self, here: ColumnSet) -> Columns:
        return here.find_anchor() if here.constraint.convex else search(here, nearest_to(here.centre, here))

    def convex_rows(self, here: ColumnSet) -> interior.Flat | interior.Curved:
        return here.curved_rows()

    def gauge(
        self, constraint: AbstractSet, x: Vector, centre: Vector, v: Vector, far: Scalar, *, at_zero: bool
    ) -> list[Scalar]:
        """The Minkowski gauge γ(v) about `centre` of every row, or of several at once, for one sample.

        The bounds end the ray at `far`, and are not among the rows. `at_zero` promises that the centre is the origin.
        """
        if constraint.quadratic:
            start, slope = jax.jvp(lambda a: constraint.rows(x, a), (centre,), (v,))
            curve = constraint.rows(x, centre + v) - start - slope
            return [jnp.max(root(curve, slope, -start))]
        return [1 / searched_exit(constraint, x, centre, v, far)]

    def interval(self, constraint: AbstractSet, x: Vector, chosen: Vector, index: Index) -> tuple[Scalar, Scalar]:
        """[low, high] such that (chosen_<index, t, rest) is feasible for t in it and some `rest`, for one sample.

        `chosen` must be zero from `index` on. From the rows alone, `rest` is zero: for sets that keep an action
        feasible when entries of it are set to zero.
        """
        low, high = constraint.bounds(x)
        axis = jnp.zeros_like(chosen).at[index].set(1.0)
        down, up = (searched_exit(constraint, x, chosen, side, jnp.ones(())) * KEEP for side in (-axis, axis))
        return within([(down, up)], low[index], high[index])

    def is_sliceable(self, *, centred: bool) -> bool:
        """Whether one interval per entry is known to reach every feasible action.

        `centred` says that, in every context, every row is smallest at the origin, which lies within the bounds.
        """
        return False

    def origin_room(self) -> tuple[Scalar, ...] | None:
        """What each row leaves at the origin, when every row is smallest there; None when that is not known."""
        return None

    def equality(self, dim: int) -> Equality | None:
        """The one linear equality that makes the set thin, when that is its only limit beside the bounds."""
        return None

    @property
    def shell(self) -> tuple[float, float] | None:
        """Inner and outer radius, when the set is what lies between two spheres about the origin and in the box."""
        return None

    @property
    def flat(self) -> bool:
        """Whether every row is given as a half-space."""
        return False

    @property
    def unlimited(self) -> bool:
        """Whether there is no limit but the bounds."""
        return False

    def bounded(self) -> Shape:
        """The shape of the same set within tighter bounds."""
        return self

    def merge(self, others: Sequence[Shape]) -> Shape:
        """The shape of the intersection with `others`, of which there is at least one, and none is `unlimited`."""
        return Unknown()


class Unknown(Shape):
    """Only the rows are known."""

    @property
    def only_rows(self) -> bool:
        return True


def merge(parts: Sequence[Shape]) -> Shape:
    """The shape of an intersection."""
    limits = [part for part in parts if not part.unlimited]
    if not limits:
        return parts[0]
    first, *others = limits
    if others:
        return first.merge(others)
    return first.bounded() if len(parts) > 1 else first


def rounding(a: Columns) -> float:
    """A few units in the last place of a number of size one."""
    return 8 * float(np.finfo(a.dtype).eps)
