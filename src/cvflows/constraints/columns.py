"""What the solvers are written against: a set, its shape, and a set at given contexts, in columns (batch last)."""

from __future__ import annotations

import abc
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints import interior
from cvflows.constraints.arrays import Codes, Columns, Contexts, Matrices, Rows, Scalars, Slopes, Vector
from cvflows.constraints.linalg import solve_positive
from cvflows.constraints.trace import smoothed

INSIDE = 1e-5
"""How far below zero rows are driven, so that linearisation errors do not leave the set."""


class AbstractSet(abc.ABC):
    """What the solvers ask of a set C(x): its rows g(x,a) ≤ 0 and what is known about it, for one context."""

    if TYPE_CHECKING:  # fields or properties, as a set likes

        @property
        def action_dim(self) -> int: ...

        @property
        def context_dim(self) -> int: ...

        @property
        def convex(self) -> bool: ...

        @property
        def thin(self) -> bool:
            """Whether an equality is among the rows."""

    @property
    def quadratic(self) -> bool:
        """Whether every row is a polynomial of degree at most two in the action."""
        return False

    @abc.abstractmethod
    def rows(self, x: Vector, a: Vector) -> Vector:
        """Every value that must be ≤ 0 for one sample, the action box apart; an equality h gives h-ε and -h-ε."""

    @abc.abstractmethod
    def bounds(self, x: Vector) -> tuple[Vector, Vector]:
        """Lowest and highest value of each action entry, within [-1,1]."""

    @abc.abstractmethod
    def centre(self, x: Vector) -> Vector:
        """A point expected to be well inside the set; the solvers check it and look for another when it is not."""

    @abc.abstractmethod
    def shape(self, x: Vector) -> AbstractShape:
        """What is known about the form of the rows."""

    @property
    def alternatives(self) -> tuple[AbstractSet, ...]:
        """The sets of which one must allow an action, for a union; none for a set that is solved as a whole."""
        return ()


class Solved(NamedTuple):
    """A solver's answer, before it lands: the point, a point inside to land towards, and how it was found."""

    y: Columns
    anchor: Columns
    outcome: Codes


class AbstractShape(eqx.Module):
    """What the solvers ask of a set's form. `here` is the set in columns, of which `self` is the shape."""

    @property
    @abc.abstractmethod
    def iterative(self) -> bool:
        """Whether the set needs an interior-point or search method, whose working set should stay in cache."""

    @property
    @abc.abstractmethod
    def only_rows(self) -> bool:
        """Whether nothing is known but the rows."""

    @abc.abstractmethod
    def project(self, here: ColumnSet, a: Columns) -> Solved:
        """argmin ‖y - a‖² over the set."""

    @abc.abstractmethod
    def maximise(self, here: ColumnSet, direction: Columns) -> tuple[Columns, Codes]:
        """argmax direction·y over the set, landed, and its outcome."""

    @abc.abstractmethod
    def margin(self, here: ColumnSet, a: Columns) -> Rows:
        """How far below zero a row must be for rounding not to matter: a few units in the last place of its terms."""

    @abc.abstractmethod
    def centre(self, here: ColumnSet) -> Columns:
        """A point inside every set, as far as one can be found."""

    @abc.abstractmethod
    def convex_rows(self, here: ColumnSet) -> interior.Flat | interior.Curved:
        """The rows as the interior-point methods want them."""


class ColumnSet(eqx.Module):
    """The sets C(x) of a batch of contexts."""

    constraint: AbstractSet = eqx.field(static=True)
    x: Contexts
    low: Columns
    high: Columns
    centre: Columns
    shape: AbstractShape

    @classmethod
    def at(cls, constraint: AbstractSet, x: Contexts) -> ColumnSet:
        """The sets of contexts `x`."""

        def describe(x: Array) -> tuple[Array, Array, Array, AbstractShape]:
            return *constraint.bounds(x), constraint.centre(x), constraint.shape(x)

        low, high, centre, shape = jax.vmap(describe, in_axes=-1, out_axes=-1, axis_size=x.shape[1])(x)
        return cls(constraint, x, low, high, centre, shape)

    def rows(self, a: Columns) -> Rows:
        """The constraint's rows at `a`."""
        return jax.vmap(self.constraint.rows, in_axes=-1, out_axes=-1)(self.x, a)

    def margin(self, a: Columns) -> Rows:
        """How far below zero a row must be for rounding not to matter: a few units in the last place of its terms."""
        return self.shape.margin(self, a)

    def convex_rows(self) -> interior.Flat | interior.Curved:
        """The rows as the interior-point methods want them."""
        return self.shape.convex_rows(self)

    def curved_rows(self) -> interior.Curved:
        """The rows as functions, with their kinks rounded."""
        rounded, kinked = smoothed(self.constraint.rows, self.x[:, 0], self.low[:, 0])
        batched = jax.vmap(rounded, in_axes=-1, out_axes=-1)
        return interior.Curved(lambda width, z: batched(width, self.x, z), kinked)

    def find_anchor(self, *, within_bounds: bool = False, patient: bool = False) -> Columns:
        """A point inside every set: its centre where that will do, else the point whose worst row is least.

        `within_bounds` counts the bounds among the rows, for a point that must not lie on them; `patient` takes longer
        and misses fewer sets that have little room.
        """
        centre = jnp.clip(self.centre, self.low, self.high)

        def worst(a: Columns) -> Scalars:
            edges = [self.low - a, a - self.high] if within_bounds else []
            return jnp.max(jnp.concatenate([self.rows(a), *edges]), axis=0, initial=-1.0)

        start = worst(centre)
        good = start < -1e-3

        def look() -> Columns:
            found = self.least_violating(within_bounds=within_bounds, patient=patient)
            mended = self.restore(found, steps=6)  # an equality may want more digits than the method above has
            found = jnp.where((worst(mended) < jnp.minimum(worst(found), 0))[None], mended, found)
            better = worst(found) < start
            return jnp.where((good | ~better)[None], centre, found)

        return lax.cond(jnp.all(good), lambda: centre, look)

    def least_violating(self, *, within_bounds: bool = False, patient: bool = False) -> Columns:
        """argmin_y max_i g_i(y) within the bounds: minimise t subject to g(y)/reach ≤ t, with rows scaled to 1.

        `within_bounds` counts the bounds among the rows; `patient` goes in smaller steps.
        """
        start = jnp.clip(self.centre, self.low, self.high)
        rows = self.rows(start)
        reach = jnp.maximum(jnp.max(jnp.abs(rows), axis=0, keepdims=True), 1.0)
        top = jnp.max(rows, axis=0, keepdims=True) / reach
        zero = jnp.zeros_like(top)
        problem = interior.Problem(
            weight=jnp.concatenate([jnp.full_like(start, 1e-4), zero]),
            target=jnp.concatenate([start, zero]),
            slope=jnp.concatenate([jnp.zeros_like(start), zero + 1]),
            low=jnp.concatenate([self.low, zero - 2]),
            high=jnp.concatenate([self.high, top + 1]),
        )
        begin = jnp.concatenate([start, top + 0.5])
        dim = len(start)
        match self.convex_rows():
            case interior.Flat(offset=offset, normal=normal):
                if within_bounds:
                    axes = interior.on_diagonal(jnp.ones_like(start))
                    offset = jnp.concatenate([offset, self.low, -self.high])
                    normal = jnp.concatenate([normal, -axes, axes])
                scaled = normal / reach[None]
                lifted = interior.Flat(offset / reach, jnp.concatenate([scaled, -jnp.ones_like(normal[:, :1])], axis=1))
                return interior.solve_flat(problem, lifted, begin, iterations=18).z[:-1]
            case interior.Curved(rows=curved, kinked=kinked):

                def raised(width: Scalars, z: Columns) -> Rows:
                    edges = [self.low - z[:dim], z[:dim] - self.high] if within_bounds else []
                    return jnp.concatenate([curved(width, z[:dim]), *edges]) / reach - z[dim:]

                return interior.solve_curved(problem, interior.Curved(raised, kinked), begin, patient=patient).z[:-1]

    def restore(self, y: Columns, steps: int) -> Columns:
        """Gauss-Newton on the violated rows, within the bounds."""

        def improve(_: Array, y: Columns) -> Columns:
            value, slope = self.rows(y), interior.jacobian(self.rows, y)
            excess = jnp.maximum(value + INSIDE, 0)
            weight = (excess > 0).astype(y.dtype)

            def step(free: Columns) -> Columns:
                masked = slope * free[None]
                matrix = interior.gram(masked, weight)
                damping = 1e-6 * jnp.trace(matrix)[None] + 1e-12
                matrix = matrix + interior.on_diagonal(damping + (1 - free))
                return -solve_positive(matrix, interior.weigh(masked, excess))

            move = step(jnp.ones_like(y))
            stuck = ((y <= self.low) & (move < 0)) | ((y >= self.high) & (move > 0))
            move = step(1 - stuck.astype(y.dtype))
            better = jnp.clip(y + move, self.low, self.high)
            return jnp.where(jnp.isfinite(better), better, y)

        return lax.fori_loop(0, steps, improve, jnp.clip(y, self.low, self.high))

    def attach_gradient(self, found: interior.Iterate, a: Columns) -> Columns:
        """`found.z` with the derivative of the projection of `a` by the implicit function theorem on the KKT system."""
        found, frozen = lax.stop_gradient((found, self))
        z, stiffest = found.z, np.finfo(a.dtype).eps ** -0.5  # stiffer springs would drown the tangent in rounding
        ratio = jnp.minimum(found.multiplier / found.slack, stiffest)
        value, slopes, curvature = frozen.expand(z, found.multiplier)
        barrier = (
            jnp.minimum(found.low_multiplier / (z - frozen.low), stiffest),
            jnp.minimum(found.high_multiplier / (frozen.high - z), stiffest),
        )
        matrix = interior.gram(slopes, ratio) + interior.on_diagonal(1 + barrier[0] + barrier[1]) + curvature
        live_value, live_slopes, _ = self.expand(z, found.multiplier)
        weights = found.multiplier + ratio * (live_value - value)
        bounds = barrier[0] * (self.low - frozen.low) + barrier[1] * (self.high - frozen.high)
        residual = interior.weigh(live_slopes, weights) - a - bounds
        return z - solve_positive(matrix, residual - lax.stop_gradient(residual))

    def linearise(self, z: Columns) -> tuple[Rows, Slopes]:
        """Value and Jacobian of the rows, with kinks rounded as sharply as they ever are."""
        match self.convex_rows():
            case interior.Flat(offset=offset, normal=normal):
                return offset + interior.apply(normal, z), normal
            case interior.Curved(rows=rows):
                sharp = partial(rows, jnp.full(z.shape[1], interior.SHARPEST, z.dtype))
                return sharp(z), interior.jacobian(sharp, z)

    def expand(self, z: Columns, multiplier: Rows) -> tuple[Rows, Slopes, Matrices]:
        """Value and Jacobian of the rows, and Σ ν_i ∇²g_i, with kinks rounded as sharply as they ever are."""
        match self.convex_rows():
            case interior.Flat(offset=offset, normal=normal):
                return offset + interior.apply(normal, z), normal, jnp.zeros((len(z), *z.shape), z.dtype)
            case interior.Curved(rows=rows):
                sharp = partial(rows, jnp.full(z.shape[1], interior.SHARPEST, z.dtype))
                return sharp(z), *interior.derivatives(sharp, z, multiplier)


def own_context(part: AbstractSet, x: Float[Array, "context *batch"]) -> Float[Array, "own *batch"]:
    """The context, or a column per sample, as a part of a set reads it: all of it, or nothing."""
    return x if part.context_dim else x[:0]
