"""Polar: the plane's annulus from a rectangle, exactly uniform, feasible by construction.

    θ = π·u₁,  r² = inner² + (outer² - inner²)·(u₂ + 1)/2,  a = r·(cos θ, sin θ)

A ring is not a deformed square: the map is cut at θ = ±π, a set of measure zero that no action is lost to but where
neighbouring actions have distant latents.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax.numpy as jnp

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.structure import Radial
from cvflows.errors import ArgumentError
from cvflows.maps.base import ActionMap, Base, Context, Mapped, Vector, as_base, from_box, to_box

KEEP = 4e-6
"""How much of the squared radii is kept clear at each edge, against rounding."""


class Polar(ActionMap):
    """An annulus {inner ≤ ‖a‖ ≤ outer} of the plane that lies within the action box."""

    constraint: AbstractConstraint = eqx.field(static=True)
    base: Base = eqx.field(static=True)

    def __init__(self, constraint: AbstractConstraint, *, base: str = "normal") -> None:
        structure = constraint.structure(jnp.zeros(constraint.context_dim))
        if constraint.action_dim != 2 or not isinstance(structure, Radial) or structure.outer > 1:
            raise ArgumentError("constraint", "a Shell of dimension 2 with `outer` at most 1", constraint)
        self.constraint, self.base = constraint, as_base(base)

    def _radii(self) -> tuple[float, float]:
        """Lowest squared radius and the span above it."""
        structure = self.constraint.structure(jnp.zeros(self.constraint.context_dim))
        assert isinstance(structure, Radial)
        low, high = structure.inner**2 * (1 + KEEP), structure.outer**2 * (1 - KEEP)
        return low, max(high - low, 0.0)

    def forward(self, latent: Vector, context: Context) -> Mapped:
        u, log_det = to_box(self.base, latent)
        low, span = self._radii()
        angle, radius = math.pi * u[0], jnp.sqrt(low + span * (u[1] + 1) / 2)
        action = radius * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        return action, log_det + math.log(math.pi * span / 4)

    def inverse(self, action: Vector, context: Context) -> Mapped:
        low, span = self._radii()
        u = jnp.stack([jnp.arctan2(action[1], action[0]) / math.pi, 2 * (jnp.sum(action**2) - low) / span - 1])
        latent, log_det = from_box(self.base, u)
        return latent, log_det - math.log(math.pi * span / 4)
