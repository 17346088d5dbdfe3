"""Coupling flows: half of the entries are transformed at a time, given the other half and the context.

`RealNVP` is the paper's flow: affine couplings without bounds, from the base distribution straight to actions.
`SplineCoupling` keeps to the box: rational-quadratic couplings of flowjax on [-1,1]^d in front of a chart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flowjax.bijections import AbstractBijection, Chain, Coupling, Flip, RationalQuadraticSpline
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.contexts import ContextDistribution
from cvflows.maps.base import ActionMap, Base, Context, Mapped, Vector, as_base, from_box, to_box
from cvflows.maps.charts import Chart, Frame
from cvflows.maps.conditioners import make_mlp
from cvflows.maps.registry import MapKind
from cvflows.maps.splines import scaled_context, typical_sizes
from cvflows.maps.symmetry import Symmetry


class AffineCoupling(eqx.Module):
    """z₂ ← (z₂ - t)·exp(-s), s = factor·tanh(net_s(z₁, x)), t = net_t(z₁, x); z₁ is the `first` part or the last."""

    nets: tuple[eqx.nn.MLP, ...]
    first: bool = eqx.field(static=True)
    split: int = eqx.field(static=True)
    factor: float = eqx.field(static=True)

    def scale_and_shift(self, kept: Array, x: Context) -> tuple[Array, Array]:
        seen = jnp.concatenate([kept, x])
        if len(self.nets) == 2:
            scale, shift = (net(seen) for net in self.nets)
        else:
            scale, shift = jnp.split(self.nets[0](seen), 2)
        return self.factor * jnp.tanh(scale), shift

    def parts(self, z: Vector) -> tuple[Array, Array]:
        """(kept, transformed)."""
        head, tail = z[: self.split], z[self.split :]
        return (head, tail) if self.first else (tail, head)

    def joined(self, kept: Array, changed: Array) -> Vector:
        return jnp.concatenate([kept, changed] if self.first else [changed, kept])


class RealNVP(ActionMap):
    """Dinh et al., Density estimation using Real NVP (2017), conditioned on the context.

    **Arguments:** `layers` couplings with masks ⌊d/2⌋ and its complement in turn; `joint` computes scale and shift with
    one network instead of two; `factor` bounds the log-scale.
    """

    constraint: AbstractConstraint = eqx.field(static=True)
    base: Base = eqx.field(static=True)
    scale: tuple[float, ...] = eqx.field(static=True)
    layers: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    joint: bool = eqx.field(static=True)
    factor: float = eqx.field(static=True)
    couplings: tuple[AffineCoupling, ...]

    def __init__(
        self,
        constraint: AbstractConstraint,
        scale: Sequence[float],
        *,
        base: str = "normal",
        layers: int = 6,
        width: int = 256,
        joint: bool = False,
        factor: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.constraint, self.base, self.scale = constraint, as_base(base), tuple(scale)
        self.layers, self.width, self.joint, self.factor = layers, width, joint, factor
        dim, split = constraint.action_dim, constraint.action_dim // 2
        couplings = []
        rng = np.random.default_rng(seed)
        for index in range(layers):
            first = index % 2 == 0
            kept = split if first else dim - split
            if kept == dim:
                continue  # with a single entry only every other layer has something to transform
            sizes = [2 * (dim - kept)] if joint else [dim - kept] * 2
            seen = kept + constraint.context_dim
            nets = tuple(make_mlp(rng, seen, size, width, activation=_leaky) for size in sizes)
            couplings.append(AffineCoupling(nets, first, split, factor))
        self.couplings = tuple(couplings)

    @property
    def certified(self) -> bool:
        return False

    def forward(self, latent: Vector, context: Context) -> Mapped:
        x, z, log_det = scaled_context(context, self.scale), latent, jnp.zeros(())
        for coupling in reversed(self.couplings):
            kept, changed = coupling.parts(z)
            scale, shift = coupling.scale_and_shift(kept, x)
            z = coupling.joined(kept, (changed - shift) * jnp.exp(-scale))
            log_det = log_det - jnp.sum(scale)
        return z, log_det

    def inverse(self, action: Vector, context: Context) -> Mapped:
        x, z, log_det = scaled_context(context, self.scale), action, jnp.zeros(())
        for coupling in self.couplings:
            kept, changed = coupling.parts(z)
            scale, shift = coupling.scale_and_shift(kept, x)
            z = coupling.joined(kept, changed * jnp.exp(scale) + shift)
            log_det = log_det + jnp.sum(scale)
        return z, log_det

    def settings(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("scale", "base", "layers", "width", "joint", "factor")}


class SplineCoupling(ActionMap):
    """Spline couplings on the box, then a chart whose intervals do not depend on earlier entries.

    **Arguments:** `layers` of couplings, `bins` per spline, `width` of their networks; the others as for `SplineMap`.
    """

    constraint: AbstractConstraint = eqx.field(static=True)
    chart: Chart = eqx.field(static=True)
    base: Base = eqx.field(static=True)
    scale: tuple[float, ...] = eqx.field(static=True)
    symmetry: Symmetry = eqx.field(static=True)
    layers: int = eqx.field(static=True)
    bins: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    mirrored: bool = eqx.field(static=True)
    flow: AbstractBijection

    def __init__(
        self,
        chart: Chart,
        symmetry: Symmetry,
        scale: Sequence[float],
        *,
        base: str = "normal",
        layers: int = 4,
        bins: int = 8,
        width: int = 64,
        mirrored: bool = False,
        seed: int = 0,
    ) -> None:
        self.mirrored = mirrored
        self.chart, self.symmetry, self.scale, self.base = chart, symmetry, tuple(scale), as_base(base)
        self.constraint, self.layers, self.bins, self.width = chart.constraint, layers, bins, width
        dim = chart.constraint.action_dim
        zeros = jnp.zeros(chart.constraint.context_dim)
        seen = jax.eval_shape(lambda x: self._condition(x, chart.frame(x)), zeros).shape[0]
        steps: list[AbstractBijection] = []
        for own in jax.random.split(jax.random.key(seed), layers):
            coupling = Coupling(
                own,
                transformer=RationalQuadraticSpline(knots=bins - 1, interval=1),
                untransformed_dim=dim // 2,
                dim=dim,
                cond_dim=seen,
                nn_width=width,
                nn_depth=2,
                nn_activation=jax.nn.silu,
            )
            steps += [coupling, Flip(shape=(dim,))]  # type: ignore[call-arg]
        self.flow = Chain(steps)

    def _condition(self, x: Context, frame: Frame) -> Float[Array, _]:
        return jnp.concatenate([scaled_context(x, self.scale), *jax.tree.leaves(frame), jnp.ones(1)])

    def _ends(self, x: Context, frame: Frame) -> tuple[Vector, Vector]:
        zero = jnp.zeros(self.constraint.action_dim)
        return jax.vmap(lambda index: self.chart.interval(x, frame, zero, index))(jnp.arange(len(zero)))

    @property
    def certified(self) -> bool:
        return self.chart.certified

    @property
    def leak(self) -> float:
        return self.chart.leak

    def forward(self, latent: Vector, context: Context) -> Mapped:
        x, signs = self.symmetry.canonical(context)
        frame = self.chart.frame(x)
        u, log_det = to_box(self.base, latent)
        u = signs * u if self.mirrored else u
        u, flow_log_det = self.flow.transform_and_log_det(u, self._condition(x, frame))
        low, high = self._ends(x, frame)
        action, chart_log_det = self.chart.to_action(x, frame, low + (high - low) * (u + 1) / 2)
        return signs * action, log_det + flow_log_det + chart_log_det + jnp.sum(jnp.log((high - low) / 2))

    def inverse(self, action: Vector, context: Context) -> Mapped:
        x, signs = self.symmetry.canonical(context)
        frame = self.chart.frame(x)
        y, log_det = self.chart.from_action(x, frame, signs * action)
        low, high = self._ends(x, frame)
        u, flow_log_det = self.flow.inverse_and_log_det(2 * (y - low) / (high - low) - 1, self._condition(x, frame))
        latent, base_log_det = from_box(self.base, signs * u if self.mirrored else u)
        return latent, log_det + flow_log_det + base_log_det - jnp.sum(jnp.log((high - low) / 2))

    def settings(self) -> dict[str, object]:
        mirrored = {"mirrored": True} if self.mirrored else {}
        return {**{name: getattr(self, name) for name in ("scale", "base", "layers", "bins", "width")}, **mirrored}


def _leaky(value: Array) -> Array:
    return jax.nn.leaky_relu(value, 0.01)


def _real_nvp(constraint: AbstractConstraint, contexts: ContextDistribution, **options: object) -> ActionMap:
    make: Callable[..., ActionMap] = RealNVP
    return make(constraint, typical_sizes(contexts), **options)


REAL_NVP = MapKind("realnvp", RealNVP, "the paper's affine couplings, straight to actions; learned", _real_nvp)
