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
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.contexts import ContextDistribution
from cvflows.errors import look_up, within
from cvflows.maps.base import ActionMap, Base, Context, Mapped, Vector, as_base, from_box, to_box
from cvflows.maps.gauge import gauge
from cvflows.maps.inside import (
    ROOM,
    centres_to_try,
    is_centred,
    is_searched_for,
    ray_centre,
    why_not_star_shaped,
)
from cvflows.maps.registry import MapKind

KEEP = 4e-6
"""Share of the way to the boundary that is left free, so that rounding does not step out."""
AWAY = 1e-6
LEAST = 0.01
"""The least softness: the slope of `smooth` at the boundary is (ε/(T - 1 + ε))², too little for float32 to invert."""
Scalar = Float[Array, ""]
SQUASHES = {"erf": "erf", "tanh": "tanh"}
PROFILES = {"linear": "linear", "smooth": "smooth"}


class RayMap(ActionMap):
    """The ray map of a star-shaped set.

    **Arguments:** `softness` is ε in [0.01, 1]; below 0.2, `inverse` loses digits near the boundary. `profile` of φ:
    `smooth` or `linear`; `squash` of a normal latent to the base box: `erf` (uniform) or `tanh`; `width` of the base
    box, in units of the action box; `anchored` searches for an inner point in every context, where the constraint's
    own centre may lie outside.
    """

    constraint: AbstractConstraint = eqx.field(static=True)
    base: Base = eqx.field(static=True)
    softness: float = eqx.field(static=True)
    profile: str = eqx.field(static=True)
    squash: str = eqx.field(static=True)
    width: float = eqx.field(static=True)
    anchored: bool = eqx.field(static=True)

    def __init__(
        self,
        constraint: AbstractConstraint,
        *,
        base: str = "normal",
        softness: float = 0.5,
        profile: str = "smooth",
        squash: str = "erf",
        width: float = 1.0,
        anchored: bool = False,
    ) -> None:
        self.constraint, self.base, self.anchored = constraint, as_base(base), anchored
        self.softness, self.width = within("softness", softness, LEAST, 1), within("width", width, 1, 10)
        self.profile, self.squash = look_up("profile", profile, PROFILES), look_up("squash", squash, SQUASHES)

    @property
    def certified(self) -> bool:
        return True

    def settings(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("base", "softness", "profile", "squash", "width", "anchored")}

    def forward(self, latent: Vector, context: Context) -> Mapped:
        b, log_det = self._to_base(latent)
        centre, _ = ray_centre(self.constraint, context, self.anchored)
        v = b - centre
        t, top = self._gauges(context, centre, v)
        value, slope = self._profile(t, top)
        inside = t <= 1 - self.softness
        ratio = jnp.where(inside, 1.0, value / jnp.maximum(t, AWAY))
        stretch = jnp.where(inside, 0.0, jnp.log(slope) + (len(v) - 1) * jnp.log(ratio))
        return centre + ratio * v, log_det + stretch

    def inverse(self, action: Vector, context: Context) -> Mapped:
        centre, _ = ray_centre(self.constraint, context, self.anchored)
        w = action - centre
        value, top = self._gauges(context, centre, w)
        t = self._unprofile(value, top)
        inside = value <= 1 - self.softness
        ratio = jnp.where(inside, 1.0, t / jnp.maximum(value, AWAY))
        slope = self._profile(t, top)[1]
        stretch = jnp.where(inside, 0.0, jnp.log(slope) - (len(w) - 1) * jnp.log(ratio))
        latent, log_det = self._from_base(centre + ratio * w)
        return latent, log_det - stretch

    def _gauges(self, x: Context, centre: Vector, v: Vector) -> tuple[Scalar, Scalar]:
        """t and T of a ray; at the centre itself there is no ray, and would be no gradient."""
        away = jnp.max(jnp.abs(v)) > AWAY
        ray = jnp.where(away, v, AWAY)
        at_zero = is_centred(self.constraint, ROOM) and not self.anchored
        t = gauge(self.constraint, x, centre, ray, at_zero=at_zero)
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


def _make(
    constraint: AbstractConstraint,
    contexts: ContextDistribution,
    *,
    seed: int = 0,
    star_shaped: bool = False,
    anchored: bool = False,
    **options: object,
) -> ActionMap:
    make: Callable[..., ActionMap] = RayMap
    return make(constraint, anchored=is_searched_for(constraint, contexts, anchored), **options)


RAY = MapKind(
    "ray",
    RayMap,
    "actions left alone inside the set, drawn back along rays near its boundary; nothing to fit",
    _make,
    why_not_star_shaped,
    calm_rank=15,
    variants=centres_to_try,
)
