"""Constraint: the set of allowed actions C(x) = {a ∈ [-1,1]^d : g(x,a) ≤ 0, |h(x,a)| ≤ ε}."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

import cvflows.constraints.runtime  # noqa: F401 - before the first computation
from cvflows.constraints.arrays import Vector as Vector
from cvflows.constraints.batches import in_batch
from cvflows.constraints.columns import AbstractSet, own_context
from cvflows.constraints.forms import Cvxpy, Expression, Form
from cvflows.constraints.legacy_metric import LegacyRows, joined, linear_rows
from cvflows.constraints.numbers import real_numbers
from cvflows.constraints.oracle import maximise_samples, maximum_samples
from cvflows.constraints.outcome import TOLERANCE as TOLERANCE
from cvflows.constraints.outcome import Maximum, Projection
from cvflows.constraints.project import project_actions, project_samples
from cvflows.constraints.shapes.base import Shape, Unknown, merge
from cvflows.errors import ArgumentError, CVFlowsError, dimension

Samples = ArrayLike | Sequence[Any]


class AbstractConstraint(AbstractSet):
    """A set of actions that depends on a context `x`, the few observation entries it reads.

    A concrete set states its `rows`; everything else follows. Methods named here take one sample or a batch: `x` of
    shape (..., context_dim) and `a` of shape (..., action_dim), broadcast against each other; `x` may be None when
    `context_dim` is 0.
    """

    proven: ClassVar[bool] = False
    """Whether `convex` follows from the formula, as for built-in sets; else it is the user's word, and is checked."""
    distributes: ClassVar[bool] = False
    """Whether `&` applies to every part of the set instead, as in a union."""
    searches_centre: ClassVar[bool] = False
    """Whether `centre` looks for a point inside the set anew in every context."""

    @property
    def holds_centre(self) -> bool:
        """Whether the rows are known to leave room at `centre` in every context, whatever else is known about them."""
        return False

    def bounds(self, x: Vector) -> tuple[Vector, Vector]:
        one = jnp.ones(self.action_dim)
        return -one, one

    def centre(self, x: Vector) -> Vector:
        low, high = self.bounds(x)
        return (low + high) / 2

    def shape(self, x: Vector) -> Shape:
        return Unknown()

    @property
    def thin(self) -> bool:
        return False

    @property
    def learned(self) -> bool:
        """Whether the rows were learned from data, so that nobody could know whether they always leave an action."""
        return False

    @property
    def radii(self) -> tuple[float, float] | None:
        """Inner and outer radius of a ball or a shell about the origin; None for other sets."""
        return None

    def arguments(self) -> dict[str, object] | None:
        """What makes the set again, as plain data, when it is one of those known by name; None when it cannot be."""
        return None

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        """The set as constraints of the reference solver on its variable `y`."""
        raise CVFlowsError(f"no cvxpy form for {type(self).__name__}")

    def legacy_rows(self) -> LegacyRows:
        """When other papers would call an action forbidden; linear rows of unit 1 for sets that none of them has."""
        x, a = jnp.zeros(self.context_dim), jnp.zeros(self.action_dim)
        return linear_rows(jax.eval_shape(self.rows, x, a).shape[0])

    def reads(self, indices: Sequence[int], of: int) -> AbstractConstraint:
        """The same set, reading entries `indices` of a context with `of` entries."""
        return Reads(self, tuple(indices), of)

    def __and__(self, other: AbstractConstraint) -> AbstractConstraint:
        """The intersection. Contexts must have one size, or none: see `reads` for sets that read different entries."""
        if not isinstance(other, AbstractConstraint) or other.distributes:
            return NotImplemented
        return Intersection((*_parts(self), *_parts(other)))

    def violation(self, x: Samples | None, a: Samples) -> Float[Array, "*batch"]:
        """CV(x,a) = Σ max(g,0) + Σ max(|h|-ε,0) + Σ max(|a|-1,0): zero exactly on the set."""
        return _violation(self, *self._checked(x, a))

    def contains(self, x: Samples | None, a: Samples) -> Bool[Array, "*batch"]:
        """Whether every row, the box included, is at most `TOLERANCE`."""
        return _contains(self, *self._checked(x, a))

    def project(self, x: Samples | None, a: Samples) -> Float[Array, "... dim"]:
        """The nearest feasible action, argmin_{y ∈ C(x)} ‖y - a‖. See `projection` for how it was found."""
        return project_actions(self, *self._checked(x, a))

    def projection(self, x: Samples | None, a: Samples) -> Projection:
        """The nearest feasible action with its outcome and distance."""
        return project_samples(self, *self._checked(x, a))

    def maximise(self, x: Samples | None, direction: Samples) -> Float[Array, "... dim"]:
        """The feasible action furthest along `direction`, argmax_{y ∈ C(x)} direction·y (the Frank-Wolfe oracle)."""
        return maximise_samples(self, *self._checked(x, direction, name="direction"))

    def maximisation(self, x: Samples | None, direction: Samples) -> Maximum:
        """The feasible action furthest along `direction`, with its outcome."""
        return maximum_samples(self, *self._checked(x, direction, name="direction"))

    def _checked(self, x: Any, a: Any, name: str = "a") -> tuple[Any, Any]:
        """Both arguments as arrays of the right size whose batch shapes fit."""
        a = _checked(name, a, self.action_dim, "action_dim")
        x = _checked("x", np.zeros(0, np.float32) if x is None else x, self.context_dim, "context_dim")
        if x.ndim > 1 and a.ndim > 1:
            try:
                np.broadcast_shapes(x.shape[:-1], a.shape[:-1])
            except ValueError:
                raise ArgumentError("x", f"a batch shape that fits {a.shape[:-1]} of `{name}`", x.shape[:-1]) from None
        return x, a


def _checked(name: str, value: Any, size: int, size_name: str) -> Any:
    """`value` as a floating array whose last axis has `size` entries, all finite when they can be looked at."""
    dtype = np.dtype(np.float64 if jax.config.jax_enable_x64 else np.float32)  # type: ignore[attr-defined]
    array: Any = value
    if isinstance(value, jax.Array):
        if not jnp.issubdtype(value.dtype, jnp.floating) and not jnp.issubdtype(value.dtype, jnp.integer):
            raise ArgumentError(name, "an array of real numbers", str(value.dtype))
        array = value if value.dtype == dtype else value.astype(dtype)
        if not isinstance(value, jax.core.Tracer) and not np.isfinite(array).all():
            raise ArgumentError(name, "finite numbers", "NaN or infinity")
    elif not (isinstance(value, np.ndarray) and value.dtype == dtype and np.isfinite(value).all()):
        array = real_numbers(name, value).astype(dtype)
    if array.ndim == 0 or array.shape[-1] != size:
        raise ArgumentError(name, f"shape (..., {size}), the {size_name} of the constraint", array.shape)
    return array


def all_rows(constraint: AbstractConstraint, x: Vector, a: Vector) -> Vector:
    """The rows of one sample with those of the action box."""
    return jnp.concatenate([constraint.rows(x, a), jnp.abs(a) - 1])


@partial(jax.jit, static_argnums=0)
def _violation(constraint: AbstractConstraint, x: Array, a: Array) -> Array:
    return in_batch(jax.vmap(lambda x, a: jnp.sum(jnp.maximum(all_rows(constraint, x, a), 0))), x, a)


@partial(jax.jit, static_argnums=0)
def _contains(constraint: AbstractConstraint, x: Array, a: Array) -> Array:
    return in_batch(jax.vmap(lambda x, a: jnp.all(all_rows(constraint, x, a) <= TOLERANCE)), x, a)


@dataclass(frozen=True)
class Reads(AbstractConstraint):
    """`part`, reading entries `indices` of a context with `context_dim` entries."""

    part: AbstractConstraint
    indices: tuple[int, ...]
    context_dim: int

    def __post_init__(self) -> None:
        dimension("of", self.context_dim, least=0)
        if len(self.indices) != self.part.context_dim:
            raise ArgumentError("indices", f"{self.part.context_dim} entries, the context_dim", len(self.indices))
        for index in self.indices:
            if not 0 <= index < self.context_dim:
                raise ArgumentError("indices", f"entries in [0, {self.context_dim})", index)

    @property
    def action_dim(self) -> int:
        return self.part.action_dim

    @property
    def convex(self) -> bool:
        return self.part.convex

    @property
    def learned(self) -> bool:
        return self.part.learned

    @property
    def thin(self) -> bool:
        return self.part.thin

    def _own(self, x: Vector) -> Vector:
        return x[jnp.asarray(self.indices, int)]

    def rows(self, x: Vector, a: Vector) -> Vector:
        return self.part.rows(self._own(x), a)

    def bounds(self, x: Vector) -> tuple[Vector, Vector]:
        return self.part.bounds(self._own(x))

    def centre(self, x: Vector) -> Vector:
        return self.part.centre(self._own(x))

    def shape(self, x: Vector) -> Shape:
        return self.part.shape(self._own(x))

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        limits, set_context = self.part.reference_form(cvxpy, y)
        return Form(limits, lambda x: set_context(x[list(self.indices)]))

    def legacy_rows(self) -> LegacyRows:
        return self.part.legacy_rows()


class Composed(AbstractConstraint):
    """A set made of `parts` that have one size of action, and one context or none."""

    parts: tuple[AbstractConstraint, ...]

    def check_parts(self, name: str) -> None:
        """Refuse parts of different sizes, as the argument `name`."""
        actions = {part.action_dim for part in self.parts}
        contexts = {part.context_dim for part in self.parts} - {0}
        if len(actions) > 1:
            raise ArgumentError(name, "sets with one action_dim", sorted(actions))
        if len(contexts) > 1:
            expected = "sets that read one context (see `reads`, which picks the entries of a longer one)"
            raise ArgumentError(name, expected, f"context_dim {sorted(contexts)}")

    @property
    def action_dim(self) -> int:
        return self.parts[0].action_dim

    @property
    def context_dim(self) -> int:
        return max(part.context_dim for part in self.parts)

    @property
    def learned(self) -> bool:
        return any(part.learned for part in self.parts)

    @property
    def thin(self) -> bool:
        return any(part.thin for part in self.parts)


@dataclass(frozen=True)
class Intersection(Composed):
    """The actions allowed by every one of `parts`; build it with `&`."""

    parts: tuple[AbstractConstraint, ...]

    def __post_init__(self) -> None:
        self.check_parts("&")

    @property
    def convex(self) -> bool:
        return all(part.convex for part in self.parts)

    def rows(self, x: Vector, a: Vector) -> Vector:
        return jnp.concatenate([part.rows(own_context(part, x), a) for part in self.parts])

    def bounds(self, x: Vector) -> tuple[Vector, Vector]:
        lows, highs = zip(*(part.bounds(own_context(part, x)) for part in self.parts), strict=True)
        return jnp.max(jnp.stack(lows), axis=0), jnp.min(jnp.stack(highs), axis=0)

    def centre(self, x: Vector) -> Vector:
        low, high = self.bounds(x)
        centres = jnp.stack([part.centre(own_context(part, x)) for part in self.parts])
        return jnp.clip(jnp.mean(centres, axis=0), low, jnp.maximum(low, high))

    def shape(self, x: Vector) -> Shape:
        return merge([part.shape(own_context(part, x)) for part in self.parts])

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        forms = [part.reference_form(cvxpy, y) for part in self.parts]

        def set_context(x: np.ndarray) -> None:
            for part, form in zip(self.parts, forms, strict=True):
                form.set_context(x if part.context_dim else x[:0])

        return Form([limit for form in forms for limit in form.limits], set_context)

    def legacy_rows(self) -> LegacyRows:
        return joined([part.legacy_rows() for part in self.parts])


def _parts(constraint: AbstractConstraint) -> tuple[AbstractConstraint, ...]:
    return constraint.parts if isinstance(constraint, Intersection) else (constraint,)
