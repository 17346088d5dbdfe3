"""Random set expressions: every built-in set with random parameters, `&`, `reads`, unions, functions of one's own.

`random_set(seed)` is deterministic. Tests and benchmarks draw from it to attack what maps and solvers promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import cvflows as cv
from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.contexts import ContextDistribution

LARGEST = 8
Rng = np.random.Generator
Part = tuple[AbstractConstraint, ContextDistribution]
NONE = cv.Uniform(0, -1, 1)


@dataclass(frozen=True)
class RandomSet:
    """A set, contexts to try it in, and the words that say how it was made."""

    seed: int
    constraint: AbstractConstraint
    contexts: ContextDistribution
    words: str


def random_set(seed: int, largest: int = LARGEST, most_parts: int = 3) -> RandomSet:
    """One to `most_parts` parts of one dimension, at most `largest`, intersected; their contexts side by side."""
    rng = np.random.default_rng([seed, 2024])
    dim = min(int(rng.choice([1, 2, 3, 4, 6, 8], p=[0.05, 0.3, 0.25, 0.15, 0.15, 0.1])), largest)
    count = min(int(rng.choice([1, 2, 3], p=[0.4, 0.4, 0.2])), most_parts)
    makers = [maker for maker, fits in MAKERS.items() if fits(dim)]
    chosen = [makers[int(rng.integers(len(makers)))] for _ in range(count)]
    parts = [maker(rng, dim) for maker in chosen]
    return RandomSet(seed, *_joined(parts), " & ".join(maker.__name__.strip("_") for maker in chosen) + f" in {dim}")


def _joined(parts: list[Part]) -> Part:
    """The intersection; each part reads its own entries of one long context, unless there is only one context."""
    if len(parts) == 1:
        return parts[0]
    with_context = [contexts for _, contexts in parts if contexts.size]
    total = sum(contexts.size for contexts in with_context)
    joined: AbstractConstraint | None = None
    start = 0
    for part, contexts in parts:
        own = part
        if contexts.size and len(with_context) > 1:
            own = part.reads(tuple(range(start, start + contexts.size)), of=total)
            start += contexts.size
        joined = own if joined is None else joined & own
    assert joined is not None
    return joined, (cv.Product(tuple(with_context)) if with_context else NONE)


def _box(rng: Rng, dim: int) -> Part:
    low = rng.uniform(-1, 0.6, dim)
    high = np.minimum(low + rng.uniform(0.2, 2.0, dim), 1.0)
    return cv.Box(dim, low.tolist(), high.tolist()), NONE


def _ball(rng: Rng, dim: int) -> Part:
    return cv.Ball(dim, rng.uniform(0.1, 1.5)), NONE


def _shell(rng: Rng, dim: int) -> Part:
    inner = rng.uniform(0.1, 0.9) * math.sqrt(dim)
    return cv.Shell(dim, inner, inner * rng.uniform(1.01, 1.5)), NONE


def _max_power(rng: Rng, dim: int) -> Part:
    return cv.MaxPower(dim, _size(rng)), cv.Uniform(dim, -_size(rng), _size(rng))


def _orthoplex(rng: Rng, dim: int) -> Part:
    return cv.Orthoplex(dim, _size(rng)), cv.Normal(dim, rng.normal(), _size(rng))


def _sin_squared(rng: Rng, dim: int) -> Part:
    return cv.SinSquared(dim, rng.uniform(0.05, 1.0)), cv.Uniform(dim, -math.pi, math.pi)


def _ellipsoid(rng: Rng, dim: int) -> Part:
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    matrix = basis @ np.diag(np.exp(rng.uniform(-1, 3, dim))) @ basis.T
    return cv.Ellipsoid((matrix + matrix.T) / 2, middle=rng.uniform(-0.9, 0.9, dim).tolist()), NONE


def _half_spaces(rng: Rng, dim: int) -> Part:
    count = int(rng.integers(1, 5))
    offsets = cv.Uniform(count, -_size(rng), rng.uniform(-0.1, 0.3))
    return cv.HalfSpaces(dim, count), cv.Product((offsets, cv.Normal(count * dim, 0, _size(rng))))


def _own_half_spaces(rng: Rng, dim: int) -> Part:
    weights = jnp.asarray(rng.normal(size=(3, dim)), jnp.float32)

    def rows(x: Array) -> tuple[Array, Array]:
        return -jnp.exp(x[:3]), weights * jnp.cos(x[3])

    return cv.HalfSpaces(dim, 3, rows, context_dim=4), cv.Normal(4, 0, 1)


def _tip(rng: Rng, dim: int) -> Part:
    return cv.Tip(rng.uniform(0.05, 2.0)), cv.Uniform(1, -math.pi, math.pi)


def _moment_arm(rng: Rng, dim: int) -> Part:
    return cv.MomentArm(_size(rng)), cv.Product((cv.Uniform(2, -5, 5), cv.Uniform(6, -math.pi, math.pi)))


def _sum(rng: Rng, dim: int) -> Part:
    low = rng.uniform(-1, 0.5, dim)
    high = np.minimum(low + rng.uniform(0.1, 1.5, dim), 1.0)
    reach = low.sum(), high.sum()
    if rng.random() < 0.5:
        middle = rng.uniform(0.02, 0.98)
        return cv.Sum(dim, float((1 - middle) * reach[0] + middle * reach[1]), low.tolist(), high.tolist()), NONE
    contexts = cv.Uniform(1, reach[0], reach[1])
    return cv.Sum(dim, None, low.tolist(), high.tolist()), contexts


def _simplex(rng: Rng, dim: int) -> Part:
    return cv.Simplex(dim), NONE


def _user_cone(rng: Rng, dim: int) -> Part:
    """Convex, with kinks and a context: the largest of a few norms."""
    weights, middle = rng.uniform(0.5, 3, dim).astype(np.float32), rng.uniform(-0.6, 0.6, dim).astype(np.float32)

    def g(x: Array, a: Array) -> Array:
        away = (a - middle) * weights
        return jnp.maximum(jnp.sum(jnp.abs(away)), 2 * jnp.sqrt(jnp.sum(away**2) + 1e-6)) - 1 - jnp.exp(x[0])

    return cv.Constraint(g, dim, 1, convex=True, anchor=middle.tolist()), cv.Normal(1, -1, 0.5)


def _user_plane(rng: Rng, dim: int) -> Part:
    """Convex, an equality of one's own."""
    normal = rng.normal(size=dim).astype(np.float32)
    margin = float(rng.choice([1e-2, 1e-3, 1e-4]))
    point = rng.uniform(-0.7, 0.7, dim).astype(np.float32)
    offset = float(normal @ point)
    return cv.Constraint(None, dim, h=lambda x, a: a @ normal - offset, convex=True, margin=margin), NONE


def _user_quartic(rng: Rng, dim: int) -> Part:
    """Convex, smooth, steep."""
    scale = rng.uniform(0.3, 1.0, dim).astype(np.float32)
    return cv.Constraint(lambda x, a: jnp.sum((a / scale) ** 4) - 1, dim, convex=True), NONE


def _user_waves(rng: Rng, dim: int) -> Part:
    """Not convex: a wavy outline that moves with the context."""
    turn = rng.uniform(1, 4, dim).astype(np.float32)

    def g(x: Array, a: Array) -> Array:
        return jnp.sum(a**2) / dim - 0.4 - 0.3 * jnp.sin(jnp.sum(turn * a) + x[0])

    return cv.Constraint(g, dim, 1), cv.Normal(1, 0, 1)


def _two_ellipsoids(rng: Rng, dim: int) -> Part:
    """Two pieces, side by side along the first entry."""
    middle = rng.uniform(-0.3, 0.3, dim)
    parts = []
    for side in (-0.6, 0.6):
        middle[0] = side
        parts.append(cv.Ellipsoid(np.diag(rng.uniform(8, 30, dim)), middle=middle.tolist()))
    return cv.Union(*parts), NONE


def _user_lie(rng: Rng, dim: int) -> Part:
    """Called convex, and is not: two lobes about a waist."""
    width = rng.uniform(0.05, 0.3)
    return cv.Constraint(lambda x, a: jnp.sum(a[1:] ** 2) - width - a[0] ** 2, dim, convex=True), NONE


def _size(rng: Rng) -> float:
    return float(np.exp(rng.uniform(-2, 3)))


def _any(dim: int) -> bool:
    return True


def _from_two(dim: int) -> bool:
    return dim >= 2


MAKERS: dict[Callable[[Rng, int], Part], Callable[[int], bool]] = {
    _box: _any,
    _ball: _any,
    _shell: _any,
    _max_power: _any,
    _orthoplex: _any,
    _sin_squared: _any,
    _ellipsoid: _any,
    _half_spaces: _any,
    _own_half_spaces: _any,
    _tip: lambda dim: dim == 2,
    _moment_arm: lambda dim: dim == 6,
    _sum: _any,
    _simplex: _from_two,
    _user_cone: _any,
    _user_plane: _from_two,
    _user_quartic: _any,
    _user_waves: _any,
    _user_lie: _from_two,
    _two_ellipsoids: _from_two,
}
"""Makers of parts, and in which dimensions they make sense."""
