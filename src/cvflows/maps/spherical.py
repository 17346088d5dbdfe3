"""Spherical coordinates, for sets around a hole: y = (cos φ₁, …, cos φ_{d-2}, θ, r^d).

    a₁ = r cos φ₁,  a₂ = r sin φ₁ cos φ₂,  …,  a_{d-1} = r Π sin φ_k cos θ,  a_d = r Π sin φ_k sin θ

Equal steps of y are equal volumes in two and three dimensions. A ring is not a deformed square: the map is cut at
θ = ±π, a set of measure zero that no action is lost to, but across which neighbouring actions have distant latents.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from cvflows.constraints.base import AbstractConstraint, all_rows
from cvflows.constraints.contexts import ContextDistribution
from cvflows.errors import ArgumentError
from cvflows.maps.base import Context, Mapped, Vector
from cvflows.maps.charts import Chart, Features, Frame, Scalar, room
from cvflows.maps.intervals import Index

KEEP = 2e-6
"""Share of the radii kept clear at each edge, against rounding."""
NARROWEST = 2.0**-22
"""Where earlier angles leave a single point open, the interval is this wide: less than what `KEEP` keeps clear."""


def _to_action(y: Vector, dim: int) -> Mapped:
    radius = jnp.maximum(y[-1], 1e-30) ** (1 / dim)
    entries, rest, log_det = [], radius, jnp.asarray(-math.log(dim))
    for k in range(dim - 2):
        sine = jnp.sqrt(jnp.maximum(1 - y[k] ** 2, 1e-12))
        entries.append(rest * y[k])
        rest = rest * sine
        log_det = log_det + (dim - 3 - k) * jnp.log(sine)
    return jnp.stack([*entries, rest * jnp.cos(y[-2]), rest * jnp.sin(y[-2])]), log_det


class _Spherical(Chart):
    """What both charts share."""

    def to_action(self, x: Context, frame: Frame, y: Vector) -> Mapped:
        return _to_action(y, self.constraint.action_dim)

    def from_action(self, x: Context, frame: Frame, action: Vector) -> Mapped:
        dim = self.constraint.action_dim
        rest = [jnp.sqrt(jnp.maximum(jnp.sum(action[k:] ** 2), 1e-30)) for k in range(dim - 1)]
        cosines = [action[k] / rest[k] for k in range(dim - 2)]
        y = jnp.stack([*cosines, jnp.arctan2(action[-1], action[-2]), rest[0] ** dim])
        return y, -_to_action(y, dim)[1]

    def folds(self, even: tuple[bool, ...]) -> tuple[int, ...]:
        """The angle θ has four mirror images when its two entries are even."""
        return (*(2 if entry else 1 for entry in even[:-2]), 4 if all(even[-2:]) else 1, 1)


@dataclass(frozen=True)
class Surroundings(_Spherical):
    """Any set whose radii lie in [inner, outer]; feasibility is learned."""

    constraint: AbstractConstraint
    inner: float
    outer: float
    certified: ClassVar[bool] = False
    leak: ClassVar[float] = 0.002  # these sets are thin: at their edges the splines leak as much again

    def frame(self, x: Context) -> Frame:
        return ()

    def interval(self, x: Context, frame: Frame, y: Vector, index: Index) -> tuple[Scalar, Scalar]:
        dim = self.constraint.action_dim
        low = jnp.asarray([-1.0] * (dim - 2) + [-math.pi, self.inner**dim])
        high = jnp.asarray([1.0] * (dim - 2) + [math.pi, self.outer**dim])
        return low[index], high[index]

    def features(self, x: Context, frame: Frame, y: Vector, index: Index) -> Features:
        """Rows, those of the box included, along the direction chosen so far, its later angles halfway."""
        dim = self.constraint.action_dim
        halfway = jnp.asarray([0.0] * (dim - 2) + [math.pi / 4, 0.0])
        start = jnp.where(jnp.arange(dim) < index, y, halfway)
        ends = [start.at[index].set(end) for end in self.interval(x, frame, y, index)]
        radii = self.inner**dim, self.outer**dim
        points = [_to_action(point.at[-1].set(r), dim)[0] for point in (start, *ends) for r in radii]
        rows = jnp.concatenate([jnp.clip(all_rows(self.constraint, x, point), -3, 3) for point in points])
        return jnp.concatenate([points[0], jnp.abs(points[0]), rows, room(rows)])


@dataclass(frozen=True)
class Shells(_Spherical):
    """inner ≤ ‖a‖ ≤ outer within the action box, by construction, whatever the box cuts away.

    A direction n is open when inner·max|n_k| ≤ 1. With ρ = Π sin of the angles before k, entry k leaves a completion
    open when ρ|cos φ_k| ≤ 1/inner and the rest, spread evenly over d-k entries, stays below 1/inner each.
    """

    constraint: AbstractConstraint
    certified: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not is_shell(self.constraint):
            raise ArgumentError("constraint", "a Shell of dimension 2 or more", self.constraint)

    def _radii(self) -> tuple[float, float]:
        shell = shell_of(self.constraint)
        assert shell is not None  # looked at when the chart was made
        return shell[0] * (1 + KEEP), shell[1] * (1 - KEEP)

    def frame(self, x: Context) -> Frame:
        return ()

    def interval(self, x: Context, frame: Frame, y: Vector, index: Index) -> tuple[Scalar, Scalar]:
        dim = self.constraint.action_dim
        branches = [lambda y, k=k: self._angle(y, k) for k in range(dim - 1)]
        return lax.switch(index, [*branches, self._radius], y)

    def _angle(self, y: Vector, k: int) -> tuple[Scalar, Scalar]:
        """The open interval of |cos φ_k|, or of θ folded to [0, π/2]."""
        dim, (inner, _) = self.constraint.action_dim, self._radii()
        before = jnp.prod(jnp.sqrt(jnp.maximum(1 - y[:k] ** 2, 1e-12)))
        share = (1 - KEEP) / (inner * before)
        if k == dim - 2:
            first = jnp.where(share < 1, jnp.arccos(jnp.minimum(share, 1 - 1e-6)), 0.0)
            return first, jnp.maximum(math.pi / 2 - first, first + NARROWEST)
        square = 1 - (dim - 1 - k) * share**2
        least = jnp.where(square > 0, jnp.sqrt(jnp.maximum(square, 1e-12)), 0.0)
        return least, jnp.maximum(jnp.minimum(share, 1.0), least + NARROWEST)

    def _radius(self, y: Vector) -> tuple[Scalar, Scalar]:
        dim, (inner, outer) = self.constraint.action_dim, self._radii()
        direction = _to_action(y.at[-1].set(1.0), dim)[0]
        high = jnp.minimum(outer, (1 - KEEP) / jnp.max(jnp.abs(direction)))
        low = jnp.asarray(inner**dim)
        return low, jnp.maximum(high**dim, low * (1 + KEEP))

    def features(self, x: Context, frame: Frame, y: Vector, index: Index) -> Features:
        low, high = self.interval(x, frame, y, index)
        return jnp.stack([low, high])


def shell_of(constraint: AbstractConstraint) -> tuple[float, float] | None:
    """Inner and outer radius of a set that lies between two spheres about the origin."""
    return constraint.shape(jnp.zeros(constraint.context_dim)).shell


def is_shell(constraint: AbstractConstraint) -> bool:
    """Whether `Shells` can chart the set."""
    return constraint.action_dim >= 2 and shell_of(constraint) is not None


def find_radii(
    constraint: AbstractConstraint, contexts: ContextDistribution, *, rays: int = 512, steps: int = 2048
) -> tuple[float, float] | None:
    """The radii of feasible actions when the set surrounds an infeasible origin, None when it does not.

    Found by walking along random rays from the origin; most rays must meet the set beyond a gap.
    """
    dim = constraint.action_dim
    if dim < 2:
        return None
    keys = jax.random.split(jax.random.key(0))
    x = contexts.sample(keys[0], rays)
    directions = jax.random.normal(keys[1], (rays, dim))
    directions = directions / jnp.linalg.norm(directions, axis=1, keepdims=True)
    radii = jnp.linspace(0.0, math.sqrt(dim), steps)

    @jax.jit
    def walk(x: Array, direction: Array) -> Array:
        return jax.vmap(lambda r: jnp.all(all_rows(constraint, x, r * direction) <= 0))(radii)

    inside = jax.vmap(walk)(x, directions)
    met = jnp.any(inside, axis=1)
    if bool(jnp.any(inside[:, 0])) or float(jnp.mean(met)) < 0.5:
        return None
    step = float(radii[1])
    first = float(jnp.min(jnp.where(inside, radii, jnp.inf))) - step
    last = float(jnp.max(jnp.where(inside, radii, -jnp.inf))) + step
    return max(first, step), min(last, math.sqrt(dim))
