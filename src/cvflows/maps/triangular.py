"""Triangular maps: one spline per action entry, conditioned on the context and the entries already chosen.

    a_i = low_i + (high_i - low_i)·(S_i(u_i) + 1)/2,   u = erf(â/√2),   S_i = spline(MLP_i(features of x and a_<i))

`Slice` takes [low_i, high_i] as the feasible interval given a_<i: every action is feasible by construction, and every
feasible action is reached. `BoxSpline` takes the extent of the set along axis i, and learns feasibility from CV.
Both directions cost d passes and need no masks.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flowjax.bijections import AbstractBijection
from jaxtyping import Array, Float, PRNGKeyArray

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.contexts import ContextDistribution
from cvflows.maps.base import ActionMap, Base, Context, Mapped, Vector, as_base, from_box, to_box
from cvflows.maps.intervals import feasible_interval
from cvflows.maps.spline import make_spline, parameter_count

Scalar = Float[Array, ""]
Features = Float[Array, "_"]


class Triangular(ActionMap):
    """Both maps: `slices` tells which; without `nets` the splines are the identity."""

    constraint: AbstractConstraint = eqx.field(static=True)
    base: Base = eqx.field(static=True)
    slices: bool = eqx.field(static=True)
    bins: int = eqx.field(static=True)
    nets: tuple[eqx.nn.MLP, ...] | None
    scale: tuple[float, ...] = eqx.field(static=True)

    def __init__(
        self,
        constraint: AbstractConstraint,
        *,
        slices: bool,
        contexts: ContextDistribution | None = None,
        splines: bool = True,
        base: str = "normal",
        bins: int = 8,
        width: int = 64,
        key: PRNGKeyArray | None = None,
    ) -> None:
        self.constraint, self.base, self.slices, self.bins = constraint, as_base(base), slices, bins
        self.scale = _scales(constraint, contexts)
        self.nets = None
        if splines:
            self.nets = self._make_nets(jax.random.key(0) if key is None else key, width)

    def _make_nets(self, key: PRNGKeyArray, width: int) -> tuple[eqx.nn.MLP, ...]:
        dim = self.constraint.action_dim
        zero = jnp.zeros(self.constraint.context_dim), jnp.zeros(dim)
        nets = []
        for index, own in enumerate(jax.random.split(key, dim)):
            size = len(self._features(*zero, self._extents(zero[0]), index, self._interval(*zero, index)))
            net = eqx.nn.MLP(size, parameter_count(self.bins), width, 2, activation=jax.nn.silu, key=own)
            last = eqx.nn.Linear(width, parameter_count(self.bins), key=own)
            last = eqx.tree_at(
                lambda layer: (layer.weight, layer.bias),
                last,
                (last.weight * 0.01, jnp.zeros(parameter_count(self.bins))),
            )
            nets.append(eqx.tree_at(lambda mlp: mlp.layers[-1], net, last))
        return tuple(nets)

    def forward(self, latent: Vector, context: Context) -> Mapped:
        u, log_det = to_box(self.base, latent)
        extents = self._extents(context)
        action = jnp.zeros_like(u)
        for index in range(len(u)):
            spline, (low, high) = self._step(context, action, extents, index)
            value, slope = spline.transform_and_log_det(u[index]) if spline else (u[index], jnp.zeros(()))
            action = action.at[index].set(low + (high - low) * (value + 1) / 2)
            log_det = log_det + slope + jnp.log((high - low) / 2)
        return action, log_det

    def inverse(self, action: Vector, context: Context) -> Mapped:
        extents = self._extents(context)
        chosen, u, log_det = jnp.zeros_like(action), jnp.zeros_like(action), jnp.zeros(())
        for index in range(len(action)):
            spline, (low, high) = self._step(context, chosen, extents, index)
            value = 2 * (action[index] - low) / (high - low) - 1
            inside, slope = spline.inverse_and_log_det(value) if spline else (value, jnp.zeros(()))
            u = u.at[index].set(inside)  # flowjax leaves what is outside the interval where it is
            log_det = log_det + slope - jnp.log((high - low) / 2)
            chosen = chosen.at[index].set(action[index])
        latent, base_log_det = from_box(self.base, u)
        return latent, log_det + base_log_det

    def _step(
        self, x: Context, chosen: Vector, extents: Features, index: int
    ) -> tuple[AbstractBijection | None, tuple[Scalar, Scalar]]:
        interval = self._interval(x, chosen, index)
        if self.nets is None:
            return None, interval
        features = self._features(x, chosen, extents, index, interval)
        return make_spline(self.nets[index](features), self.bins), interval

    def _interval(self, x: Context, chosen: Vector, index: int) -> tuple[Scalar, Scalar]:
        before = chosen if self.slices else jnp.zeros_like(chosen)
        return feasible_interval(self.constraint, x, before, index)

    def _extents(self, x: Context) -> Features:
        """How far the set reaches along each axis, both ways."""
        zero = jnp.zeros(self.constraint.action_dim)
        return jnp.stack([end for i in range(len(zero)) for end in feasible_interval(self.constraint, x, zero, i)])

    def _features(
        self, x: Context, chosen: Vector, extents: Features, index: int, interval: tuple[Scalar, Scalar]
    ) -> Features:
        """What the spline of entry `index` may know: the context, the set's extents, the past, and the rows so far."""
        scaled = x / jnp.asarray(self.scale, x.dtype)
        low, high = interval
        here = [
            self._rows(x, chosen),
            *((self._rows(x, chosen.at[index].set(end)) for end in interval) if not self.slices else ()),
        ]
        rows = jnp.concatenate(here)
        ends = jnp.stack([low, high])
        return jnp.concatenate(
            [scaled, jnp.abs(scaled), extents, chosen[:index], ends, rows, jnp.sqrt(jnp.maximum(-rows, 0) + 1e-4)]
        )

    def _rows(self, x: Context, action: Vector) -> Features:
        return jnp.clip(self.constraint.rows(x, action), -3.0, 3.0)


def _scales(constraint: AbstractConstraint, contexts: ContextDistribution | None) -> tuple[float, ...]:
    """Typical size of every context entry."""
    if contexts is None or constraint.context_dim == 0:
        return (1.0,) * constraint.context_dim
    drawn = np.asarray(contexts.sample(jax.random.key(0), 4096))
    return tuple(float(value) for value in np.maximum(drawn.std(axis=0), 1e-6))


def slice_map(constraint: AbstractConstraint, **options: Any) -> Triangular:
    """Zero violations by construction: each entry within its feasible interval."""
    return Triangular(constraint, slices=True, **options)


def box_spline(constraint: AbstractConstraint, **options: Any) -> Triangular:
    """A flow that learns the set from its violation signal alone."""
    return Triangular(constraint, slices=False, **options)
