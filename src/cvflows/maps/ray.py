"""Ray maps: an action is left alone where it is allowed, and drawn back along its ray near the boundary and beyond.

For a set that is star-shaped about a centre c, with γ_C and γ_B the gauges about c of the set and of the base box,

    b = squash(z),   v = b - c,   t = γ_C(v),   T = t / γ_B(v),   a = c + v·φ(t)/t

where T is the value of t at which the ray leaves the base box. φ is the identity up to 1 - ε and takes [1 - ε, T] onto
[1 - ε, 1]:

    linear:   φ = 1 - ε + ε·(t - 1 + ε) / (T - 1 + ε)
    smooth:   φ = 1 - ε + u / (1 + k·u),   u = t - 1 + ε,   k = 1/ε - 1/(T - 1 + ε),   whose slope begins at 1

Each ray is kept and t is linear along it, so that log|det ∂a/∂b| = log φ'(t) + (d - 1)·log(φ(t)/t). There is nothing to
fit. ε = 1 is close to the gauge map; ε → 0 is α-projection made invertible.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint
from cvflows.errors import ArgumentError, look_up
from cvflows.maps.base import ActionMap, Base, Context, Mapped, Vector, as_base, from_box, to_box
from cvflows.maps.inside import is_centred
from cvflows.maps.rays import gauge

KEEP = 4e-6
"""Share of the way to the boundary that is left free, so that rounding does not step out."""
AWAY = 1e-6
Scalar = Float[Array, ""]
SQUASHES = {"erf": "erf", "tanh": "tanh"}
PROFILES = {"linear": "linear", "smooth": "smooth"}


class RayMap(ActionMap):
    """The ray map of a star-shaped set.

    **Arguments:** `softness` is ε in (0, 1]; `profile`, of φ, `smooth` or `linear`; `squash`, of a normal latent to the
    base box, `erf` (uniform) or `tanh`; `width` of the base box, in units of the action box.
    """

    constraint: AbstractConstraint = eqx.field(static=True)
    base: Base = eqx.field(static=True)
    softness: float = eqx.field(static=True)
    profile: str = eqx.field(static=True)
    squash: str = eqx.field(static=True)
    width: float = eqx.field(static=True)

    def __init__(
        self,
        constraint: AbstractConstraint,
        *,
        base: str = "normal",
        softness: float = 0.5,
        profile: str = "smooth",
        squash: str = "erf",
        width: float = 1.0,
        seed: int = 0,
    ) -> None:
        if not 0 < softness <= 1:
            raise ArgumentError("softness", "a number in (0, 1]", softness)
        if not 1 <= width <= 10:
            raise ArgumentError("width", "a number in [1, 10]", width)
        self.constraint, self.base, self.softness, self.width = constraint, as_base(base), softness, width
        self.profile, self.squash = look_up("profile", profile, PROFILES), look_up("squash", squash, SQUASHES)

    @property
    def certified(self) -> bool:
        return True

    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("base", "softness", "profile", "squash", "width")}

    def forward(self, latent: Vector, context: Context) -> Mapped:
        b, log_det = self._to_base(latent)
        centre = self._centre(context)
        v = b - centre
        t, top = self._gauges(context, centre, v)
        value, slope = self._profile(t, top)
        inside = t <= 1 - self.softness
        ratio = jnp.where(inside, 1.0, value / jnp.maximum(t, AWAY))
        stretch = jnp.where(inside, 0.0, jnp.log(slope) + (len(v) - 1) * jnp.log(ratio))
        return centre + ratio * v, log_det + stretch

    def inverse(self, action: Vector, context: Context) -> Mapped:
        centre = self._centre(context)
        w = action - centre
        value, top = self._gauges(context, centre, w)
        t = self._unprofile(value, top)
        inside = value <= 1 - self.softness
        ratio = jnp.where(inside, 1.0, t / jnp.maximum(value, AWAY))
        slope = self._profile(t, top)[1]
        stretch = jnp.where(inside, 0.0, jnp.log(slope) - (len(w) - 1) * jnp.log(ratio))
        latent, log_det = self._from_base(centre + ratio * w)
        return latent, log_det - stretch

    def _centre(self, x: Context) -> Vector:
        return jnp.zeros(self.constraint.action_dim) if is_centred(self.constraint) else self.constraint.centre(x)

    def _gauges(self, x: Context, centre: Vector, v: Vector) -> tuple[Scalar, Scalar]:
        """t and T of a ray; at the centre itself there is no ray, and would be no gradient."""
        away = jnp.max(jnp.abs(v)) > AWAY
        ray = jnp.where(away, v, AWAY)
        t = gauge(self.constraint, x, centre, ray, at_zero=is_centred(self.constraint))
        box = jnp.max(jnp.maximum(ray / (self.width - centre), -ray / (self.width + centre)))
        return jnp.where(away, t, 0.0), jnp.maximum(t / box, 1.0)

    def _profile(self, t: Scalar, top: Scalar) -> tuple[Scalar, Scalar]:
        """φ(t) and φ'(t) beyond 1 - ε; the highest value is a little below 1."""
        start, height = 1 - self.softness, self.softness - KEEP
        u, span = jnp.maximum(t - start, 0), jnp.maximum(top - start, self.softness)
        if self.profile == "linear":
            return start + u * height / span, height / span
        bend = jnp.maximum(1 / height - 1 / span, 0)
        return start + u / (1 + bend * u), 1 / (1 + bend * u) ** 2

    def _unprofile(self, value: Scalar, top: Scalar) -> Scalar:
        start, height = 1 - self.softness, self.softness - KEEP
        s, span = jnp.clip(value - start, 0, height), jnp.maximum(top - start, self.softness)
        if self.profile == "linear":
            return start + s * span / height
        bend = jnp.maximum(1 / height - 1 / span, 0)
        return start + s / jnp.maximum(1 - bend * s, 1e-12)

    def _to_base(self, latent: Vector) -> Mapped:
        if self.base == "uniform" or self.squash == "erf":
            b, log_det = to_box(self.base, latent)
        else:
            b = jnp.tanh(latent)
            log_det = jnp.sum(2 * (math.log(2.0) - latent - jax.nn.softplus(-2 * latent)))
        return self.width * b, log_det + len(latent) * math.log(self.width)

    def _from_base(self, b: Vector) -> Mapped:
        u = b / self.width
        if self.base == "uniform" or self.squash == "erf":
            latent, log_det = from_box(self.base, u)
        else:
            edge = 1 - 2.0**-23
            latent = jnp.arctanh(jnp.clip(u, -edge, edge))
            log_det = -jnp.sum(2 * (math.log(2.0) - latent - jax.nn.softplus(-2 * latent)))
        return latent, log_det - len(b) * math.log(self.width)
