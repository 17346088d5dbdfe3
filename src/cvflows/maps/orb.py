"""Balls and shells about the origin that fit into the action box: a normal latent's direction is kept, and its length
becomes a radius,

    a = r · z/‖z‖,   r^d = inner^d + F(‖z‖²)·(outer^d - inner^d),

with F the distribution function of χ² with d degrees of freedom. The density on the set is exactly uniform, there is
nothing to fit, and, unlike in coordinates of a cut shell, no seam: a policy can turn all the way round.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import gammainc
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.contexts import ContextDistribution
from cvflows.errors import ArgumentError
from cvflows.maps.base import ActionMap, Base, Context, Mapped, Vector
from cvflows.maps.registry import MapKind, Options

KEEP = 4e-6
"""How much of the radii is left free, so that rounding does not step out."""
LEAST = 1e-9
FURTHEST = 12.0
HALVINGS = 40
Scalar = Float[Array, ""]


def radii(constraint: AbstractConstraint) -> tuple[float, float] | None:
    """Inner and outer radius of a set that is round; None where it is not, or the action box cuts it."""
    found = constraint.radii
    return found if found is not None and found[1] <= 1 and constraint.action_dim >= 2 else None


class Orb(ActionMap):
    """The map of a `Ball` or a `Shell` that the action box does not cut."""

    constraint: AbstractConstraint
    base: Base = "normal"

    def __init__(self, constraint: AbstractConstraint) -> None:
        if radii(constraint) is None:
            raise ArgumentError("constraint", "a ball or a shell within the action box", constraint)
        self.constraint = constraint

    @property
    def certified(self) -> bool:
        return True

    def settings(self) -> dict[str, object]:
        return {}

    def _volumes(self) -> tuple[float, float]:
        """inner^d and outer^d, less a little."""
        inner, outer = radii(self.constraint) or (0.0, 1.0)
        gap = min(KEEP, (outer - inner) / (4 * outer))
        return (inner * (1 + gap)) ** self.constraint.action_dim, (outer * (1 - gap)) ** self.constraint.action_dim

    def _radius(self, length: Scalar) -> Scalar:
        d = self.constraint.action_dim
        low, high = self._volumes()
        share = -jnp.expm1(-(length**2) / 2) if d == 2 else gammainc(d / 2, length**2 / 2)
        return (low + share * (high - low)) ** (1 / d)

    def _stretched(self, length: Scalar) -> tuple[Scalar, Scalar]:
        """The radius of a length, and log|det| of the whole map there: (dr/dl)·(r/l)^(d-1)."""
        radius, slope = jax.jvp(self._radius, (length,), (jnp.ones(()),))
        return radius, jnp.log(slope) + (self.constraint.action_dim - 1) * jnp.log(radius / length)

    def forward(self, latent: Vector, context: Context) -> Mapped:
        square = jnp.sum(latent**2)
        away = square > LEAST
        ray = jnp.where(away, latent, jnp.sqrt(LEAST / len(latent)))  # at the very centre, any direction will do
        length = jnp.sqrt(jnp.sum(ray**2))
        radius, log_det = self._stretched(length)
        return radius / length * ray, log_det

    def inverse(self, action: Vector, context: Context) -> Mapped:
        wanted = jnp.sqrt(jnp.maximum(jnp.sum(action**2), LEAST))

        def halve(_: Array, bracket: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
            below, above = bracket
            middle = (below + above) / 2
            short = self._radius(middle) < wanted
            return jnp.where(short, middle, below), jnp.where(short, above, middle)

        ends = jnp.asarray(LEAST**0.5), jnp.asarray(FURTHEST)
        length = lax.fori_loop(0, HALVINGS, halve, ends)[0]
        return length / wanted * action, -self._stretched(length)[1]


def _why_not(constraint: AbstractConstraint, options: Options, contexts: ContextDistribution | None) -> str | None:
    if options.get("base", "normal") != "normal":
        return '`base="normal"`, without which an orb is not uniform,'
    return None if radii(constraint) is not None else "a ball or a shell within the action box"


def _make(constraint: AbstractConstraint, contexts: ContextDistribution, *, seed: int, base: str = "normal") -> Orb:
    return Orb(constraint)


ORB = MapKind(
    *("orb", Orb, "a normal latent's direction, and its length as a radius", _make, _why_not),
    rank=20,
    has_options=False,
)
