"""Constraint: the set of allowed actions C(x) = {a ∈ [-1,1]^d : g(x,a) ≤ 0, |h(x,a)| ≤ ε}."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from cvflows.constraints.numbers import real_numbers
from cvflows.constraints.outcome import Maximum, Projection
from cvflows.constraints.structure import Structure, merge
from cvflows.constraints.trace import check_function
from cvflows.errors import ArgumentError, dimension, positive

TOLERANCE = 1e-6
"""The one strict tolerance on normalised g: an action counts as feasible when every row is at most this."""

Vector = Float[Array, "_"]
Samples = ArrayLike | Sequence[Any]
ConstraintFunction = Callable[[Any, Any], Any]

# On the CPU, handing a decision of 60 µs to another thread and waiting for it takes 80 more. This is the module that
# everything with arrays imports first; it must be said before the first computation.
jax.config.update("jax_cpu_enable_async_dispatch", False)


class AbstractConstraint(abc.ABC):
    """A set of actions that depends on a context `x`, the few observation entries it reads.

    A concrete set states its `rows`; everything else follows. Methods named here take one sample or a batch: `x` of
    shape (..., context_dim) and `a` of shape (..., action_dim), broadcast against each other; `x` may be None when
    `context_dim` is 0.
    """

    action_dim: int
    context_dim: int
    convex: bool
    quadratic: ClassVar[bool] = False
    """Whether every row is a polynomial of degree at most two in the action."""
    proven: ClassVar[bool] = False
    """Whether `convex` follows from the formula, as for built-in sets; else it is the user's word, and is checked."""
    learned: bool = False
    """Whether the rows were learned from data, so that nobody could know whether they always leave an action."""
    distributes: ClassVar[bool] = False
    """Whether `&` applies to every part of the set instead, as in a union."""

    @abc.abstractmethod
    def rows(self, x: Vector, a: Vector) -> Vector:
        """Every value that must be ≤ 0 for one sample, the action box apart; an equality h gives h-ε and -h-ε."""

    def bounds(self, x: Vector) -> tuple[Vector, Vector]:
        """Lowest and highest value of each action entry, within [-1,1]."""
        one = jnp.ones(self.action_dim)
        return -one, one

    def centre(self, x: Vector) -> Vector:
        """A point expected to be well inside the set; the solvers check it and look for another when it is not."""
        low, high = self.bounds(x)
        return (low + high) / 2

    def structure(self, x: Vector) -> Structure:
        """What the solvers may rely on about the shape of the set; None when only `rows` is known."""
        return None

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
        from cvflows.constraints.project import project_actions

        return project_actions(self, *self._checked(x, a))

    def projection(self, x: Samples | None, a: Samples) -> Projection:
        """The nearest feasible action with its outcome and distance."""
        from cvflows.constraints.project import project_samples

        return project_samples(self, *self._checked(x, a))

    def maximise(self, x: Samples | None, direction: Samples) -> Float[Array, "... dim"]:
        """The feasible action furthest along `direction`, argmax_{y ∈ C(x)} direction·y (the Frank-Wolfe oracle)."""
        from cvflows.constraints.oracle import maximise_actions

        return maximise_actions(self, *self._checked(x, direction, name="direction"))

    def maximisation(self, x: Samples | None, direction: Samples) -> Maximum:
        """The feasible action furthest along `direction`, with its outcome."""
        from cvflows.constraints.oracle import maximise_samples

        return maximise_samples(self, *self._checked(x, direction, name="direction"))

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


def in_batch(solve: Callable[[Array, Array], Any], x: Array, a: Array) -> Any:
    """`solve` on the broadcast samples flattened to (n, _), its outputs given the batch shape again."""
    batch = jnp.broadcast_shapes(x.shape[:-1], a.shape[:-1])
    n = math.prod(batch)
    flat = [jnp.broadcast_to(array, (*batch, array.shape[-1])).reshape(n, array.shape[-1]) for array in (x, a)]
    return jax.tree.map(lambda leaf: leaf.reshape(*batch, *leaf.shape[1:]), solve(*flat))


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


@dataclass(frozen=True, init=False)
class Constraint(AbstractConstraint):
    """A set from any JAX functions of one context and one action: g(x,a) ≤ 0 and h(x,a) = 0.

    **Arguments:**

    - `g`: inequalities, returning a scalar or a vector that must be ≤ 0; or None.
    - `action_dim`, `context_dim`: sizes of `a` and `x`.
    - `convex`: whether the set is convex in `a`: then projection finds the global optimum.
    - `h`: equalities, a scalar or a vector that must be 0 within `margin`; or None. Convex sets need `h` affine in `a`.
    - `margin`: ε, how far from 0 an equality may be.
    - `anchor`: an action that is feasible in every context, if one is known.
    """

    g: ConstraintFunction | None
    h: ConstraintFunction | None
    action_dim: int
    context_dim: int
    convex: bool
    margin: float
    anchor: tuple[float, ...] | None

    def __init__(
        self,
        g: ConstraintFunction | None,
        action_dim: int,
        context_dim: int = 0,
        *,
        convex: bool = False,
        h: ConstraintFunction | None = None,
        margin: float = 1e-3,
        anchor: Sequence[float] | None = None,
    ) -> None:
        if g is None and h is None:
            raise ArgumentError("g", "a function, or `h`", "neither")
        fields = {
            "g": g,
            "h": h,
            "action_dim": dimension("action_dim", action_dim),
            "context_dim": dimension("context_dim", context_dim, least=0),
            "convex": bool(convex),
            "margin": positive("margin", margin),
            "anchor": None if anchor is None else tuple(float(value) for value in np.asarray(anchor).ravel()),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        for name, function in (("g", g), ("h", h)):
            if function is not None:
                check_function(name, function, self.context_dim, self.action_dim)
        if self.anchor is not None and len(self.anchor) != self.action_dim:
            raise ArgumentError("anchor", f"{self.action_dim} numbers", len(self.anchor))

    def rows(self, x: Vector, a: Vector) -> Vector:
        rows = []
        if self.g is not None:
            rows.append(jnp.atleast_1d(self.g(x, a)))
        if self.h is not None:
            h = jnp.atleast_1d(self.h(x, a))
            rows += [h - self.margin, -h - self.margin]
        return jnp.concatenate(rows)

    def centre(self, x: Vector) -> Vector:
        return jnp.zeros(self.action_dim) if self.anchor is None else jnp.asarray(self.anchor)


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
    def action_dim(self) -> int:  # type: ignore[override]
        return self.part.action_dim

    @property
    def convex(self) -> bool:  # type: ignore[override]
        return self.part.convex

    @property
    def learned(self) -> bool:  # type: ignore[override]
        return self.part.learned

    def _own(self, x: Vector) -> Vector:
        return x[jnp.asarray(self.indices, int)]

    def rows(self, x: Vector, a: Vector) -> Vector:
        return self.part.rows(self._own(x), a)

    def bounds(self, x: Vector) -> tuple[Vector, Vector]:
        return self.part.bounds(self._own(x))

    def centre(self, x: Vector) -> Vector:
        return self.part.centre(self._own(x))

    def structure(self, x: Vector) -> Structure:
        return self.part.structure(self._own(x))


@dataclass(frozen=True)
class Intersection(AbstractConstraint):
    """The actions allowed by every one of `parts`; build it with `&`."""

    parts: tuple[AbstractConstraint, ...]

    def __post_init__(self) -> None:
        actions = {part.action_dim for part in self.parts}
        contexts = {part.context_dim for part in self.parts} - {0}
        if len(actions) > 1:
            raise ArgumentError("&", "sets with one action_dim", sorted(actions))
        if len(contexts) > 1:
            expected = "sets that read one context (see `reads`, which picks the entries of a longer one)"
            raise ArgumentError("&", expected, f"context_dim {sorted(contexts)}")

    @property
    def action_dim(self) -> int:  # type: ignore[override]
        return self.parts[0].action_dim

    @property
    def context_dim(self) -> int:  # type: ignore[override]
        return max(part.context_dim for part in self.parts)

    @property
    def convex(self) -> bool:  # type: ignore[override]
        return all(part.convex for part in self.parts)

    @property
    def learned(self) -> bool:  # type: ignore[override]
        return any(part.learned for part in self.parts)

    def rows(self, x: Vector, a: Vector) -> Vector:
        return jnp.concatenate([part.rows(_context(part, x), a) for part in self.parts])

    def bounds(self, x: Vector) -> tuple[Vector, Vector]:
        lows, highs = zip(*(part.bounds(_context(part, x)) for part in self.parts), strict=True)
        return jnp.max(jnp.stack(lows), axis=0), jnp.min(jnp.stack(highs), axis=0)

    def centre(self, x: Vector) -> Vector:
        low, high = self.bounds(x)
        centres = jnp.stack([part.centre(_context(part, x)) for part in self.parts])
        return jnp.clip(jnp.mean(centres, axis=0), low, jnp.maximum(low, high))

    def structure(self, x: Vector) -> Structure:
        return merge([part.structure(_context(part, x)) for part in self.parts])


def _context(part: AbstractConstraint, x: Vector) -> Vector:
    return x if part.context_dim else x[:0]


def _parts(constraint: AbstractConstraint) -> tuple[AbstractConstraint, ...]:
    return constraint.parts if isinstance(constraint, Intersection) else (constraint,)
