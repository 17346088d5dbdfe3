"""SplineMap: a chart's intervals filled one after the other by conditional rational-quadratic splines.

    y_i = low_i + (high_i - low_i)·(B_i(S_i(t_i)) + 1)/2,   t = fold(u),   u = erf(â/√2),   a = chart(y)

S_i is a monotone spline (Durkan et al., Neural Spline Flows, 2019) whose knots come from a small network that sees the
context, y_<i and what the chart tells about the set; B_i is the chart's own `bend`, the identity for most. Both
directions cost d passes and need no masks. Where the set is its own mirror image the latent is folded: the spline sees
|u_i|, and the sign is given back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import paramax
from flowjax.bijections import AbstractBijection, RationalQuadraticSpline
from flowjax.utils import get_ravelled_pytree_constructor
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.contexts import ContextDistribution
from cvflows.maps.base import ActionMap, Base, Context, Mapped, Vector, as_base, from_box, to_box
from cvflows.maps.charts import Chart, Frame
from cvflows.maps.conditioners import make_mlp
from cvflows.maps.intervals import Index
from cvflows.maps.symmetry import Symmetry

Scalar = Float[Array, ""]


def parameter_count(bins: int) -> int:
    """Numbers that describe one spline: widths, heights, and slopes at all knots, the ends included."""
    return 3 * bins + 1


def make_spline(parameters: Float[Array, _], bins: int, least: float = 1e-3) -> AbstractBijection:
    """A spline on [-1,1] from unconstrained numbers; zeros give the identity."""
    identity = RationalQuadraticSpline(knots=bins - 1, interval=1, min_width=least)
    construct, _ = get_ravelled_pytree_constructor(
        identity,
        filter_spec=eqx.is_inexact_array,
        is_leaf=lambda leaf: isinstance(leaf, paramax.NonTrainable),
    )
    return paramax.unwrap(construct(parameters))


class _Entry(NamedTuple):
    """What the pass over the entries needs for each of them."""

    place: Array
    fold: Array
    value: Array
    net: eqx.nn.MLP | None


class SplineMap(ActionMap):
    """Splines over a chart.

    **Arguments:** `splines=False` leaves every spline the identity, with nothing to fit; `bins` per spline, none
    narrower than `least`; `width` of the two hidden layers; `scale`: typical size of every context entry; `mirrored`:
    whether the latent is mirrored with the actions, where the sign of a context entry mirrors the set. Without it,
    every action of a latent changes its sign with that entry.
    """

    constraint: AbstractConstraint = eqx.field(static=True)
    chart: Chart = eqx.field(static=True)
    base: Base = eqx.field(static=True)
    bins: int = eqx.field(static=True)
    least: float = eqx.field(static=True)
    width: int = eqx.field(static=True)
    symmetry: Symmetry = eqx.field(static=True)
    scale: tuple[float, ...] = eqx.field(static=True)
    mirrored: bool = eqx.field(static=True)
    nets: eqx.nn.MLP | None

    def __init__(
        self,
        chart: Chart,
        symmetry: Symmetry,
        scale: Sequence[float],
        *,
        splines: bool = True,
        base: str = "normal",
        bins: int = 8,
        least: float = 1e-3,
        width: int = 64,
        mirrored: bool = False,
        seed: int = 0,
    ) -> None:
        self.mirrored = mirrored
        self.constraint, self.chart, self.symmetry, self.scale = chart.constraint, chart, symmetry, tuple(scale)
        self.base, self.bins, self.least, self.width = as_base(base), bins, least, width
        self.nets = None
        if splines:
            self.nets = make_mlp(
                np.random.default_rng(seed),
                self._feature_count(),
                parameter_count(bins),
                width,
                activation=jax.nn.silu,
                stack=chart.constraint.action_dim,
                last=0.1,  # splines start near the identity
            )

    @property
    def certified(self) -> bool:
        return self.chart.certified

    @property
    def leak(self) -> float:
        return self.chart.leak

    def forward(self, latent: Vector, context: Context) -> Mapped:
        x, signs = self.symmetry.canonical(context)
        u, log_det = to_box(self.base, latent)
        u = signs * u if self.mirrored else u
        frame = self.chart.frame(x)

        def step(y: Vector, entry: _Entry) -> tuple[Vector, Scalar]:
            low, high = self._interval(x, frame, y, entry)
            folded, stretch = _fold(entry.value, entry.fold)
            inside, slope = folded, jnp.zeros(())
            if entry.net is not None:
                inside, slope = self._spline(x, frame, y, entry, (low, high)).transform_and_log_det(folded)
            inside, bend = self.chart.bend(x, y, entry.place, inside)
            value = _unfold(low + (high - low) * (inside + 1) / 2, entry.value, entry.fold)
            return y.at[entry.place].set(value), slope + bend + jnp.log((high - low) / 2) + stretch

        y, log_dets = lax.scan(step, jnp.zeros_like(u), self._entries(u))
        action, chart_log_det = self.chart.to_action(x, frame, y)
        return signs * action, log_det + jnp.sum(log_dets) + chart_log_det

    def inverse(self, action: Vector, context: Context) -> Mapped:
        x, signs = self.symmetry.canonical(context)
        frame = self.chart.frame(x)
        y, log_det = self.chart.from_action(x, frame, signs * action)

        def step(chosen: Vector, entry: _Entry) -> tuple[Vector, tuple[Scalar, Scalar]]:
            low, high = self._interval(x, frame, chosen, entry)
            value = 2 * (_folded(entry.value, entry.fold) - low) / (high - low) - 1
            value, bend = self.chart.unbend(x, chosen, entry.place, value)
            slope = jnp.zeros(())
            if entry.net is not None:  # flowjax leaves what is outside the interval where it is
                value, slope = self._spline(x, frame, chosen, entry, (low, high)).inverse_and_log_det(value)
            u, stretch = _unfold_latent(value, entry.value, entry.fold)
            return chosen.at[entry.place].set(entry.value), (u, slope + bend - jnp.log((high - low) / 2) - stretch)

        _, (u, log_dets) = lax.scan(step, jnp.zeros_like(y), self._entries(y))
        latent, base_log_det = from_box(self.base, signs * u if self.mirrored else u)
        return latent, log_det + jnp.sum(log_dets) + base_log_det

    def settings(self) -> dict[str, object]:
        names = ("scale", "base", "bins", "least", "width")
        mirrored = {"mirrored": True} if self.mirrored else {}  # else left out, so that hashes of older maps stay
        return {**{name: getattr(self, name) for name in names}, "splines": self.nets is not None, **mirrored}

    def _entries(self, values: Vector) -> _Entry:
        dim = len(values)
        return _Entry(jnp.arange(dim), jnp.asarray(self.chart.folds(self.symmetry.even)), values, self._arrays())

    def _arrays(self) -> eqx.nn.MLP | None:
        return None if self.nets is None else eqx.filter(self.nets, eqx.is_array)

    def _interval(self, x: Context, frame: Frame, y: Vector, entry: _Entry) -> tuple[Scalar, Scalar]:
        """The chart's interval, its mirror images left away."""
        low, high = self.chart.interval(x, frame, y, entry.place)
        low = jnp.where(entry.fold > 1, jnp.maximum(low, 0), low)
        return low, jnp.where(entry.fold > 2, jnp.minimum(high, math.pi / 2), high)

    def _spline(
        self, x: Context, frame: Frame, y: Vector, entry: _Entry, interval: tuple[Scalar, Scalar]
    ) -> AbstractBijection:
        net = eqx.combine(entry.net, eqx.filter(self.nets, eqx.is_array, inverse=True))
        return make_spline(net(self._features(x, frame, y, entry.place, interval)), self.bins, self.least)

    def _feature_count(self) -> int:
        def features(x: Context, y: Vector) -> Float[Array, _]:
            return self._features(x, self.chart.frame(x), y, 0, (y[0], y[0]))

        zeros = jnp.zeros(self.constraint.context_dim), jnp.zeros(self.constraint.action_dim)
        return int(jax.eval_shape(features, *zeros).shape[0])

    def _features(
        self, x: Context, frame: Frame, y: Vector, index: Index, interval: tuple[Scalar, Scalar]
    ) -> Float[Array, _]:
        past = jnp.where(np.asarray(self.chart.folds(self.symmetry.even)) > 1, jnp.abs(y), y)
        told = self.chart.features(x, frame, y, index)
        return jnp.concatenate([scaled_context(x, self.scale), past, jnp.stack(interval), told])


def _fold(u: Scalar, fold: Array) -> tuple[Scalar, Scalar]:
    """A latent in [-1,1] brought to the first of its mirror images, in [-1,1] again, and log of the stretch."""
    twice = 2 * jnp.abs(u) - 1
    folded = jnp.where(fold == 1, u, jnp.where(fold == 2, twice, 1 - 2 * jnp.abs(twice)))
    return folded, jnp.log(fold.astype(u.dtype))


def _unfold_latent(folded: Scalar, y: Scalar, fold: Array) -> tuple[Scalar, Scalar]:
    """The latent of a folded one, in the mirror image where the coordinate `y` lies."""
    late = jnp.abs(y) > math.pi / 2
    quarter = jnp.where(late, 3 - folded, 1 + folded) / 4
    u = jnp.where(fold == 1, folded, jnp.where(y < 0, -1.0, 1.0) * jnp.where(fold == 2, (folded + 1) / 2, quarter))
    return u, jnp.log(fold.astype(y.dtype))


def _folded(y: Scalar, fold: Array) -> Scalar:
    """A coordinate brought to the first of its mirror images."""
    size = jnp.abs(y)
    return jnp.where(fold == 1, y, jnp.where((fold == 4) & (size > math.pi / 2), math.pi - size, size))


def _unfold(folded: Scalar, u: Scalar, fold: Array) -> Scalar:
    """A coordinate put back into the mirror image that the latent asked for."""
    size = jnp.where((fold == 4) & (jnp.abs(u) > 0.5), math.pi - folded, folded)
    return jnp.where(fold == 1, folded, jnp.where(u < 0, -size, size))


def scaled_context(x: Context, scale: tuple[float, ...]) -> Context:
    """The context in units of its typical size."""
    return x / jnp.asarray(scale, x.dtype)


def typical_sizes(contexts: ContextDistribution) -> tuple[float, ...]:
    """Root mean square of every context entry."""
    drawn = np.asarray(contexts.sample(jax.random.key(0), 4096), float)
    return tuple(float(value) for value in np.maximum(np.sqrt((drawn**2).mean(axis=0)), 1e-6))
