"""Charts: coordinates y of the action space in which a map fills one interval after the other.

| chart | interval of y_i | action | |
|---|---|---|---|
| `Extents` | how far the set reaches along axis i | a = y | feasibility is learned |
| `Slices` | what stays feasible given y_<i | a = y | feasible by construction |
| `Shares` | the same, for shares of a total | a = y | the same, and uniform without splines: see `shares.py` |
| `Gauge` | how far the set reaches along axis i, from c | a = c + y·γ_B(y)/γ_C(y) | feasible by construction |

γ_C is the set's Minkowski gauge about its centre c, γ_B that of the box of extents: the box is pulled onto the set ray
by ray. See `spherical.py` for sets around a hole.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint
from cvflows.maps.base import LEAK, Context, Mapped, Vector
from cvflows.maps.gauge import gauge
from cvflows.maps.inside import ROOM, is_centred, ray_centre
from cvflows.maps.intervals import Index, feasible_interval

Scalar = Float[Array, ""]
Features = Float[Array, "_"]
Frame = tuple[Array, ...]
"""What a chart computes once per context."""


class Chart(abc.ABC):
    """Frozen, hashable coordinates of one constraint's actions."""

    constraint: AbstractConstraint
    certified: ClassVar[bool]
    """Whether every action is feasible by construction: each chart must say so."""
    leak: ClassVar[float] = LEAK

    @abc.abstractmethod
    def frame(self, x: Context) -> Frame:
        """What all entries share at this context."""

    @abc.abstractmethod
    def interval(self, x: Context, frame: Frame, y: Vector, index: Index) -> tuple[Scalar, Scalar]:
        """Where y_index may lie, given y_<index (later entries of `y` are zero)."""

    @abc.abstractmethod
    def features(self, x: Context, frame: Frame, y: Vector, index: Index) -> Features:
        """What the spline of entry `index` is told about the set, of one size for all entries."""

    def bend(self, x: Context, y: Vector, index: Index, t: Scalar) -> tuple[Scalar, Scalar]:
        """(t', log ∂t'/∂t): where in the interval of y_index, scaled to [-1,1], a uniform t in [-1,1] goes."""
        return t, jnp.zeros(())

    def unbend(self, x: Context, y: Vector, index: Index, t: Scalar) -> tuple[Scalar, Scalar]:
        """The inverse of `bend` with the log of its slope."""
        return t, jnp.zeros(())

    def to_action(self, x: Context, frame: Frame, y: Vector) -> Mapped:
        """(action, log|det ∂a/∂y|)."""
        return y, jnp.zeros(())

    def from_action(self, x: Context, frame: Frame, action: Vector) -> Mapped:
        """(y, log|det ∂y/∂a|)."""
        return action, jnp.zeros(())

    def folds(self, even: tuple[bool, ...]) -> tuple[int, ...]:
        """How many mirror images each coordinate has: 2 where the set is even."""
        return tuple(2 if entry else 1 for entry in even)


@dataclass(frozen=True)
class Extents(Chart):
    """A box around the set: how far it reaches along its `axes`, or its bounds where that says little."""

    constraint: AbstractConstraint
    axes: bool = True
    certified: ClassVar[bool] = False

    def frame(self, x: Context) -> Frame:
        zero = jnp.zeros(self.constraint.action_dim)
        ends = [feasible_interval(self.constraint, x, zero, i) for i in range(len(zero))]
        if not self.axes:
            ends = list(zip(*self.constraint.bounds(x), strict=True))
        tips = jnp.concatenate([jnp.diag(jnp.stack(end)) for end in zip(*ends, strict=True)])
        rows = jax.vmap(lambda tip: shown_rows(self.constraint, x, tip))(tips).ravel()
        return jnp.stack([low for low, _ in ends]), jnp.stack([high for _, high in ends]), rows

    def interval(self, x: Context, frame: Frame, y: Vector, index: Index) -> tuple[Scalar, Scalar]:
        return frame[0][index], frame[1][index]

    def features(self, x: Context, frame: Frame, y: Vector, index: Index) -> Features:
        here = [y, *(y.at[index].set(end[index]) for end in frame[:2])]
        rows = jnp.concatenate([shown_rows(self.constraint, x, a) for a in here])
        return jnp.concatenate([*frame, rows, room(rows)])


@dataclass(frozen=True)
class Slices(Chart):
    """The feasible interval of each entry."""

    constraint: AbstractConstraint
    certified: ClassVar[bool] = True

    def frame(self, x: Context) -> Frame:
        return Extents(self.constraint).frame(x)

    def interval(self, x: Context, frame: Frame, y: Vector, index: Index) -> tuple[Scalar, Scalar]:
        return feasible_interval(self.constraint, x, y, index)

    def features(self, x: Context, frame: Frame, y: Vector, index: Index) -> Features:
        rows = shown_rows(self.constraint, x, y)
        return jnp.concatenate([*frame, rows, room(rows)])


@dataclass(frozen=True)
class Gauge(Chart):
    """Rays from an inner point: for sets that are star-shaped about it, convex ones first of all.

    `anchored` computes an inner point for every context, where the constraint's own centre may lie outside.
    """

    constraint: AbstractConstraint
    anchored: bool = False
    certified: ClassVar[bool] = True

    def frame(self, x: Context) -> Frame:
        centre, _ = ray_centre(self.constraint, x, self.anchored)
        axes = jnp.eye(len(centre))
        reach = [jnp.stack([1 / self._gauge(x, centre, side * axis) for axis in axes]) for side in (-1, 1)]
        return centre, -reach[0], reach[1]

    def _gauge(self, x: Context, centre: Vector, v: Vector) -> Scalar:
        at_zero = is_centred(self.constraint, ROOM) and not self.anchored
        return jnp.maximum(gauge(self.constraint, x, centre, v, at_zero=at_zero), 1e-9)

    def interval(self, x: Context, frame: Frame, y: Vector, index: Index) -> tuple[Scalar, Scalar]:
        return frame[1][index], frame[2][index]

    def _ratio(self, x: Context, frame: Frame, v: Vector) -> Scalar:
        """γ_C(v)/γ_B(v), a little more than it is, so that rounding does not step out."""
        centre, low, high = frame
        away = jnp.max(jnp.abs(v)) > 1e-6
        ray = jnp.where(away, v, high)  # at the centre itself there is no ray, and would be no gradient
        box = jnp.max(jnp.maximum(ray / high, ray / low))
        return jnp.where(away, self._gauge(x, centre, ray) / box, 1.0) * (1 + 4e-6)

    def to_action(self, x: Context, frame: Frame, y: Vector) -> Mapped:
        ratio = self._ratio(x, frame, y)
        return frame[0] + y / ratio, -len(y) * jnp.log(ratio)

    def from_action(self, x: Context, frame: Frame, action: Vector) -> Mapped:
        v = action - frame[0]
        ratio = self._ratio(x, frame, v)
        return v * ratio, len(v) * jnp.log(ratio)

    def features(self, x: Context, frame: Frame, y: Vector, index: Index) -> Features:
        centre, low, high = frame
        here = [y, *(y.at[index].set(end[index]) for end in (low, high))]
        ratios = jnp.stack([jnp.log(self._ratio(x, frame, v)) for v in here])
        rows = jnp.concatenate([shown_rows(self.constraint, x, centre + v) for v in here])
        return jnp.concatenate([centre, low, high, ratios, rows, room(rows)])


def shown_rows(constraint: AbstractConstraint, x: Context, a: Vector) -> Features:
    """Rows in a range that a network likes."""
    return jnp.clip(constraint.rows(x, a), -3.0, 3.0)


def room(rows: Features) -> Features:
    """√ of the room left: what a quadratic row's interval grows with."""
    return jnp.sqrt(jnp.maximum(-rows, 0) + 1e-4)
