"""The built-in sets, each normalised by its bound: a row of value 0.1 is ten per cent over, in every set."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from cvflows.constraints.base import AbstractConstraint, Vector
from cvflows.constraints.structure import Affine, Radial, Row, Separable, Structure, Total
from cvflows.constraints.trace import check_indices
from cvflows.errors import ArgumentError, dimension, look_up, positive

Bounds = float | Sequence[float]


class _Sized(AbstractConstraint):
    """A set with a free dimension `dim`; convex and blind to the context unless it says otherwise."""

    dim: int
    convex = proven = True
    context_dim = 0

    @property
    def action_dim(self) -> int:  # type: ignore[override]
        return self.dim


@dataclass(frozen=True)
class Box(_Sized):
    """low ≤ a ≤ high, within [-1,1]. `Box(dim)` is the action box itself: no further limit."""

    dim: int
    low: Bounds = -1.0
    high: Bounds = 1.0

    def __post_init__(self) -> None:
        _set(self, "dim", dimension("dim", self.dim))
        _set_bounds(self)

    def rows(self, x: Vector, a: Vector) -> Vector:
        return _bound_rows(self, a)

    def bounds(self, x: Vector) -> tuple[Vector, Vector]:
        return jnp.asarray(self.low), jnp.asarray(self.high)

    def structure(self, x: Vector) -> Structure:
        return Separable((), centred=True)


@dataclass(frozen=True)
class _Weighted(_Sized):
    """One separable row whose coefficients depend on the context, bounded by 1 after normalisation."""

    dim: int
    bound: float

    def __post_init__(self) -> None:
        _set(self, "dim", dimension("dim", self.dim))
        _set(self, "bound", positive("bound", self.bound))

    @property
    def context_dim(self) -> int:  # type: ignore[override]
        return self.dim


@dataclass(frozen=True)
class MaxPower(_Weighted):
    """Σ max(w_i a_i, 0) ≤ bound, with w = x: mechanical power spent, none recovered."""

    def rows(self, x: Vector, a: Vector) -> Vector:
        return (jnp.sum(jnp.maximum(x * a, 0)) / self.bound - 1)[None]

    def structure(self, x: Vector) -> Structure:
        return _normalised(
            absolute=jnp.abs(x) / (2 * self.bound), linear=x / (2 * self.bound)
        )  # max(z,0) = (|z| + z)/2


@dataclass(frozen=True)
class Orthoplex(_Weighted):
    """Σ |w_i a_i| ≤ bound, with w = x: total power, spent or absorbed."""

    def rows(self, x: Vector, a: Vector) -> Vector:
        return (jnp.sum(jnp.abs(x * a)) / self.bound - 1)[None]

    def structure(self, x: Vector) -> Structure:
        return _normalised(absolute=jnp.abs(x) / self.bound)


@dataclass(frozen=True)
class SinSquared(_Weighted):
    """Σ a_i² sin²θ_i ≤ bound, with θ = x."""

    def rows(self, x: Vector, a: Vector) -> Vector:
        return (jnp.sum((a * jnp.sin(x)) ** 2) / self.bound - 1)[None]

    def structure(self, x: Vector) -> Structure:
        return _normalised(quadratic=jnp.sin(x) ** 2 / self.bound)


@dataclass(frozen=True)
class Ball(_Sized):
    """a·a ≤ radius²."""

    dim: int
    radius: float

    def __post_init__(self) -> None:
        _set(self, "dim", dimension("dim", self.dim))
        _set(self, "radius", positive("radius", self.radius))

    def rows(self, x: Vector, a: Vector) -> Vector:
        return (jnp.sum(a * a) / self.radius**2 - 1)[None]

    def structure(self, x: Vector) -> Structure:
        return _normalised(quadratic=jnp.full(self.dim, 1 / self.radius**2))


@dataclass(frozen=True)
class Shell(_Sized):
    """inner² ≤ a·a ≤ outer²: an annulus in the plane, a hollow ball in space. Not convex."""

    dim: int
    inner: float
    outer: float
    convex = False

    def __post_init__(self) -> None:
        _set(self, "dim", dimension("dim", self.dim))
        _set(self, "inner", positive("inner", self.inner))
        _set(self, "outer", positive("outer", self.outer))
        if self.inner > self.outer:
            raise ArgumentError("inner", f"at most `outer` = {self.outer}", self.inner)
        if self.inner > math.sqrt(self.dim):
            raise ArgumentError("inner", f"at most √{self.dim}, the corner of the action box", self.inner)

    def rows(self, x: Vector, a: Vector) -> Vector:
        square = jnp.sum(a * a)
        return jnp.stack([square / self.outer**2 - 1, 1 - square / self.inner**2])

    def centre(self, x: Vector) -> Vector:
        radius = min((self.inner + self.outer) / 2, math.sqrt(self.dim))
        return jnp.full(self.dim, radius / math.sqrt(self.dim))

    def structure(self, x: Vector) -> Structure:
        return Radial(self.inner, self.outer)


@dataclass(frozen=True)
class Ellipsoid(AbstractConstraint):
    """(a-c)·Q(a-c) ≤ 1 for a symmetric positive semi-definite `matrix` Q and a `middle` c (0 by default)."""

    matrix: Any
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
        _set(self, "matrix", tuple(map(tuple, matrix.tolist())))
        _set(self, "middle", tuple(middle.tolist()))

    @property
    def action_dim(self) -> int:  # type: ignore[override]
        return len(self.matrix)

    def rows(self, x: Vector, a: Vector) -> Vector:
        offset = a - jnp.asarray(self.middle)
        return (offset @ jnp.asarray(self.matrix) @ offset - 1)[None]

    def centre(self, x: Vector) -> Vector:
        return jnp.asarray(self.middle)


@dataclass(frozen=True)
class Tip(AbstractConstraint):
    """a₁² + 2a₁(a₁+a₂)cosθ₂ + (a₁+a₂)² ≤ bound, with θ₂ = x: how fast a two-link arm's tip may be pushed."""

    bound: float
    action_dim = 2
    context_dim = 1
    convex = proven = True
    quadratic = True

    def __post_init__(self) -> None:
        _set(self, "bound", positive("bound", self.bound))

    def rows(self, x: Vector, a: Vector) -> Vector:
        first, both = a[0], a[0] + a[1]
        return ((first**2 + 2 * first * both * jnp.cos(x[0]) + both**2) / self.bound - 1)[None]


@dataclass(frozen=True)
class MomentArm(AbstractConstraint):
    """w₁a₁sin(θ₁+θ₂+θ₃) + w₄a₄sin(θ₄+θ₅+θ₆) ≤ bound for six joints, with x = (w₁, w₄, θ₁…θ₆)."""

    bound: float
    action_dim = 6
    context_dim = 8
    convex = proven = True

    def __post_init__(self) -> None:
        _set(self, "bound", positive("bound", self.bound))

    def normal(self, x: Vector) -> Vector:
        zero = jnp.zeros(())
        back, front = x[0] * jnp.sin(jnp.sum(x[2:5])), x[1] * jnp.sin(jnp.sum(x[5:8]))
        return jnp.stack([back, zero, zero, front, zero, zero]) / self.bound

    def rows(self, x: Vector, a: Vector) -> Vector:
        return (jnp.sum(self.normal(x) * a) - 1)[None]

    def structure(self, x: Vector) -> Structure:
        return Affine(-jnp.ones(1), self.normal(x)[None])


@dataclass(frozen=True)
class HalfSpaces(_Sized):
    """c_i + w_i·a ≤ 0 for `count` rows. May be empty: projection then gives the least-violating action and says so.

    `row_function(x)` returns (c, w) of shapes (count,) and (count, dim). Without it, the context itself holds them:
    x = (c, w flattened), of size count·(1 + dim).
    """

    dim: int
    count: int
    row_function: Callable[[Array], tuple[Array, Array]] | None = None
    context_dim: int = -1

    def __post_init__(self) -> None:
        _set(self, "dim", dimension("dim", self.dim))
        _set(self, "count", dimension("count", self.count))
        if self.row_function is None:
            _set(self, "context_dim", self.count * (1 + self.dim))
            return
        _set(self, "context_dim", dimension("context_dim", self.context_dim, least=0))
        x = jnp.zeros(self.context_dim)
        check_indices(f"`row_function`(x of shape ({self.context_dim},))", jax.make_jaxpr(self.row_function)(x))
        offset, normal = self.row_function(x)
        shapes = jnp.shape(offset), jnp.shape(normal)
        if shapes != ((self.count,), (self.count, self.dim)):
            raise ArgumentError("row_function", f"shapes ({self.count},) and ({self.count}, {self.dim})", shapes)

    def offsets_and_normals(self, x: Vector) -> tuple[Array, Array]:
        if self.row_function is not None:
            return self.row_function(x)
        return x[: self.count], x[self.count :].reshape(self.count, self.dim)

    def rows(self, x: Vector, a: Vector) -> Vector:
        offset, normal = self.offsets_and_normals(x)
        return offset + jnp.sum(normal * a[None], axis=1)

    def structure(self, x: Vector) -> Structure:
        return Affine(*self.offsets_and_normals(x))


@dataclass(frozen=True)
class Sum(_Sized):
    """Σ a_i = total within `margin`, each share within [low, high]. `total=None` reads the total from the context."""

    dim: int
    total: float | None = 1.0
    low: Bounds = 0.0
    high: Bounds = 1.0
    margin: float = 1e-4

    def __post_init__(self) -> None:
        _set(self, "dim", dimension("dim", self.dim))
        _set(self, "margin", positive("margin", self.margin))
        _set_bounds(self)
        low, high = sum(self.low), sum(self.high)  # type: ignore[arg-type]
        if self.total is not None and not low <= self.total <= high:
            raise ArgumentError("total", f"a number in [{low:g}, {high:g}], what the bounds allow", self.total)

    @property
    def context_dim(self) -> int:  # type: ignore[override]
        return 0 if self.total is not None else 1

    def _total(self, x: Vector) -> Array:
        return x[0] if self.total is None else jnp.asarray(self.total, float)

    def rows(self, x: Vector, a: Vector) -> Vector:
        excess = jnp.sum(a) - self._total(x)
        return jnp.concatenate([jnp.stack([excess - self.margin, -excess - self.margin]), _bound_rows(self, a)])

    def bounds(self, x: Vector) -> tuple[Vector, Vector]:
        return jnp.asarray(self.low), jnp.asarray(self.high)

    def centre(self, x: Vector) -> Vector:
        low, high = self.bounds(x)
        share = jnp.clip((self._total(x) - jnp.sum(low)) / jnp.sum(high - low), 0, 1)
        return low + share * (high - low)

    def structure(self, x: Vector) -> Structure:
        return Total(self._total(x), self.margin)


def Simplex(dim: int, *, margin: float = 1e-4) -> Sum:  # noqa: N802 - reads like the set it makes
    """Shares a ≥ 0 with Σ a_i = 1."""
    return Sum(dim, total=1.0, low=0.0, high=1.0, margin=margin)


SETS: dict[str, Callable[..., AbstractConstraint]] = {
    make.__name__: make
    for make in (
        *(Box, Ball, Shell, MaxPower, Orthoplex, SinSquared),
        *(HalfSpaces, Ellipsoid, Tip, MomentArm, Sum, Simplex),
    )
}


def make_set(name: str, **arguments: Any) -> AbstractConstraint:
    """A built-in set by name: `make_set("Ball", dim=2, radius=0.5)`."""
    return look_up("set", name, SETS)(**arguments)


def _normalised(**coefficients: Vector) -> Separable:
    """One separable row with bound 1 that is smallest at a = 0."""
    return Separable((Row(jnp.ones(()), **coefficients),), centred=True)


def _bound_rows(instance: Box | Sum, a: Vector) -> Vector:
    """Rows for the bounds that are tighter than the action box, which is counted apart."""
    low, high = np.asarray(instance.low, float), np.asarray(instance.high, float)
    lower, upper = np.flatnonzero(low > -1), np.flatnonzero(high < 1)
    return jnp.concatenate([jnp.asarray(low[lower]) - a[lower], a[upper] - jnp.asarray(high[upper])])


def _set(instance: Any, name: str, value: Any) -> None:
    object.__setattr__(instance, name, value)  # the dataclasses are frozen


def _set_bounds(instance: Any) -> None:
    """Bring `low` and `high` to tuples and check them."""
    for name in ("low", "high"):
        value = np.asarray(getattr(instance, name), float)
        if value.shape not in ((), (instance.dim,)):
            raise ArgumentError(name, f"one number or {instance.dim}", f"shape {value.shape}")
        if not (np.abs(value) <= 1).all():
            raise ArgumentError(name, "numbers within the action box [-1,1]", value)
        _set(instance, name, tuple(np.broadcast_to(value, instance.dim).tolist()))
    if any(low >= high for low, high in zip(instance.low, instance.high, strict=True)):
        raise ArgumentError("low", f"below `high` = {instance.high}", instance.low)
