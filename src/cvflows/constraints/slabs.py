"""Sets that one linear equality makes thin: exact volumes, and samples uniform on them.

    |normal·a - offset| ≤ margin,   low ≤ a ≤ high

With v_i = |normal_i|·(distance of a_i from the bound that makes normal_i·a_i least) this is |Σ v - t| ≤ margin on the
box 0 ≤ v_i ≤ W_i. The volume is the box's times P(|Σ v - t| ≤ margin) for independent uniform v_i, whose distribution
function is a repeated moving average: F_k(s) = ∫_{s-W_k}^s F_{k-1} / W_k. Samples keep Σ v while pairs (v_i, v_j) are
drawn again and again (Gibbs sampling), which mixes in a few sweeps and rejects nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint, Intersection, Reads
from cvflows.constraints.functions import Constraint

GRID = 8193
SWEEPS = 80


class Slab(NamedTuple):
    """The slabs of a batch of contexts, in float64: `normal`, `low`, `high` (contexts, dim), the others (contexts,)."""

    normal: np.ndarray
    offset: np.ndarray
    margin: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def widths(self) -> np.ndarray:
        """W = |normal|·(high - low)."""
        return np.abs(self.normal) * (self.high - self.low)

    def target(self) -> np.ndarray:
        """t: the offset above the least value of normal·a."""
        return self.offset - np.minimum(self.normal * self.low, self.normal * self.high).sum(axis=1)

    def to_action(self, v: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Actions (contexts, count, dim) of v; where the normal is zero, u ∈ [0,1] places the entry freely."""
        normal, low, high = (values[:, None] for values in (self.normal, self.low, self.high))
        share = np.where(normal == 0, u, v / np.where(normal == 0, 1.0, np.abs(normal) * (high - low)))
        return np.where(normal < 0, high - share * (high - low), low + share * (high - low))


def find_slab(constraint: AbstractConstraint, x: Float[Array, "contexts _"]) -> Slab | None:
    """The slab that the set lies in, when one of its parts is a total or a single affine equality of the user's."""
    found = _equality(constraint, x)
    if found is None:
        return None
    low, high = (np.asarray(value, np.float64) for value in jax.vmap(constraint.bounds, axis_size=len(x))(x))
    if (low >= high).any():
        return None
    return Slab(*found, low, high)


def _equality(
    constraint: AbstractConstraint, x: Float[Array, "contexts _"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(normal, offset, margin) of the one equality in the set."""
    match constraint:
        case Reads(part=part, indices=indices):
            return _equality(part, x[:, jnp.asarray(indices, int)])
        case Intersection(parts=parts):
            found = [_equality(part, x if part.context_dim else x[:, :0]) for part in parts]
            known = [one for one in found if one is not None]
            return known[0] if len(known) == 1 else None
        case Constraint(h=h, convex=True) if h is not None:
            zero = jnp.zeros(constraint.action_dim)
            values = jax.vmap(lambda x: jnp.atleast_1d(h(x, zero)), axis_size=len(x))(x)
            if values.shape[1] != 1:
                return None
            slope = jax.vmap(lambda x: jax.jacobian(lambda a: jnp.atleast_1d(h(x, a))[0])(zero), axis_size=len(x))(x)
            margin = np.full(len(x), constraint.margin)
            return np.asarray(slope, np.float64), -np.asarray(values[:, 0], np.float64), margin
    dim, count = constraint.action_dim, len(x)
    thin = constraint.shape(jnp.zeros(constraint.context_dim)).equality(dim)
    if thin is None:
        return None
    normals, offsets = jax.vmap(lambda x: (constraint.shape(x).equality(dim) or thin)[:2], axis_size=count)(x)
    return np.asarray(normals, np.float64), np.asarray(offsets, np.float64), np.full(count, thin.margin)


def slab_samples(slab: Slab, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Actions (contexts, count, dim) uniform on each slab, and the log of its volume (-inf where it is empty)."""
    rng = np.random.default_rng(seed)
    widths, target = slab.widths(), slab.target()
    grid, below = sum_distribution(widths)
    ends = [_interpolate(grid, below, target + side * slab.margin) for side in (-1, 1)]
    with np.errstate(divide="ignore"):
        log_volume = np.log(slab.high - slab.low).sum(axis=1) + np.log(ends[1] - ends[0])
    shares = ends[0][:, None] + rng.random((len(target), count)) * (ends[1] - ends[0])[:, None]
    sums = np.stack([np.interp(share, cdf, s) for share, cdf, s in zip(shares, below, grid, strict=True)])
    sums = np.clip(sums, (target - slab.margin)[:, None], (target + slab.margin)[:, None])  # F is flat in places
    v = widths[:, None] * (np.clip(sums, 0, widths.sum(axis=1)[:, None]) / widths.sum(axis=1)[:, None])[..., None]
    for _ in range(SWEEPS):
        order = rng.permutation(v.shape[2])
        for i, j in zip(order[::2], order[1::2], strict=False):
            both = v[:, :, i] + v[:, :, j]
            low = np.maximum(both - widths[:, None, j], 0)
            high = np.minimum(both, widths[:, None, i])
            v[:, :, i] = low + rng.random(both.shape) * (high - low)
            v[:, :, j] = both - v[:, :, i]
    return slab.to_action(v, rng.random(v.shape)), log_volume


def sum_distribution(widths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A grid of sums (contexts, n) and P(Σ v ≤ s) on it, for independent v_i uniform on [0, W_i]."""
    order = np.sort(widths, axis=1)[:, ::-1]
    top = order.sum(axis=1)
    grid = np.linspace(0, 1, GRID)[None] * top[:, None]
    below = np.clip(grid / order[:, :1], 0, 1)
    step = grid[:, 1:2]
    for width in order[:, 1:].T:
        area = np.pad(np.cumsum((below[:, 1:] + below[:, :-1]) * step / 2, axis=1), ((0, 0), (1, 0)))
        positive = width > 0
        span = np.where(positive, width, 1.0)
        earlier = np.stack([np.interp(s - w, s, a) for s, w, a in zip(grid, span, area, strict=True)])
        below = np.where(positive[:, None], (area - earlier) / span[:, None], below)
    return grid, np.maximum.accumulate(np.clip(below, 0, 1), axis=1)


def _interpolate(grid: np.ndarray, values: np.ndarray, at: np.ndarray) -> np.ndarray:
    return np.asarray([np.interp(s, g, v) for s, g, v in zip(at, grid, values, strict=True)])
