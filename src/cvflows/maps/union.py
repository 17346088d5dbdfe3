"""The map of a union of disjoint sets: the latent's first coordinate chooses the part, whose own map does the rest.

With u = erf(â/√2) uniform on the box, the interval (-1,1) of u₁ is cut into one piece per part, of length 2w_k; the
piece is stretched back to (-1,1) and goes to the part's map as a latent. So p(a) = w_k·p_k(a) on part k, and

    log|det| = log|det of part k's map| - log w_k + (what both changes of base contribute).

w_k is fixed but for parts that are empty at x, which get nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from cvflows.constraints.base import TOLERANCE, AbstractConstraint
from cvflows.constraints.columns import ColumnSet, own_context
from cvflows.constraints.contexts import ContextDistribution, Uniform
from cvflows.constraints.outcome import Outcome
from cvflows.constraints.project import is_iterative, project_columns
from cvflows.constraints.sample import direct_samples
from cvflows.constraints.union import Union
from cvflows.errors import UnsuitableSetError
from cvflows.maps.base import ActionMap, Base, Context, Mapped, Vector, as_base, from_box, to_box
from cvflows.maps.inside import is_centre_inside
from cvflows.maps.registry import (
    Maker,
    MapKind,
    MapRecord,
    Options,
    describe_map,
    make_map,
    plain_record,
    rebuild_map,
)

CONTEXTS = 64
SMALLEST = 0.02
"""Least share of the latents that a part gets."""
OVERLAP = 1e-4
"""How deep inside a second part an action must lie for the two to count as overlapping."""
EDGE = 1 - 2.0**-23
NO_CONTEXT = Uniform(0, -1, 1)
Shares = Float[Array, "parts"]


class UnionMap(ActionMap):
    """One map per part.

    **Arguments:** `parts`: the maps, in the order of `constraint.parts`; `weights`: their shares of the latents;
    `homes`: for every part a context in which it is not empty, or None where it never is.
    """

    constraint: Union = eqx.field(static=True)
    base: Base = eqx.field(static=True)
    weights: tuple[float, ...] = eqx.field(static=True)
    homes: tuple[tuple[float, ...] | None, ...] = eqx.field(static=True)
    parts: tuple[ActionMap, ...]

    def __init__(
        self,
        constraint: Union,
        parts: Sequence[ActionMap],
        *,
        weights: Sequence[float],
        homes: Sequence[Sequence[float] | None],
        base: str = "normal",
    ) -> None:
        self.constraint, self.base, self.parts = constraint, as_base(base), tuple(parts)
        self.weights = tuple(float(weight) for weight in weights)
        self.homes = tuple(None if home is None else tuple(float(value) for value in home) for home in homes)

    @property
    def certified(self) -> bool:
        return all(part.certified for part in self.parts)

    def settings(self) -> dict[str, object]:
        return {"base": self.base, "weights": self.weights, "homes": self.homes}

    def forward(self, latent: Vector, context: Context) -> Mapped:
        shares = self._shares(context)
        u, log_det = to_box(self.base, latent)
        ends = jnp.cumsum(shares)
        place = (u[0] + 1) / 2
        reached = (place < ends) & (shares > 0)
        last = len(self.parts) - 1 - jnp.argmax(shares[::-1] > 0)
        chosen = jnp.where(jnp.any(reached), jnp.argmax(reached), last)
        start, share = ends[chosen] - shares[chosen], shares[chosen]
        inner = jnp.clip(2 * (place - start) / share - 1, -EDGE, EDGE)
        own, own_log_det = from_box(self.base, u.at[0].set(inner))

        def through(k: int, x: Context, z: Vector) -> Mapped:
            return self.parts[k].forward(z, x)

        action, part_log_det = self._chosen(through, chosen, shares, context, lambda k, x: jnp.zeros_like(own), own)
        return action, log_det - jnp.log(share) + own_log_det + part_log_det

    def inverse(self, action: Vector, context: Context) -> Mapped:
        shares = self._shares(context)
        rows = jnp.where(shares > 0, self.constraint.part_rows(context, action), jnp.inf)
        chosen = jnp.argmin(rows)

        def through(k: int, x: Context, a: Vector) -> Mapped:
            return self.parts[k].inverse(a, x)

        def elsewhere(k: int, x: Context) -> Vector:
            return lax.stop_gradient(self.parts[k].forward(jnp.zeros_like(action), x)[0])

        own, part_log_det = self._chosen(through, chosen, shares, context, elsewhere, action)
        u, own_log_det = to_box(self.base, own)
        share = shares[chosen]
        place = jnp.cumsum(shares)[chosen] - share + share * (u[0] + 1) / 2
        latent, log_det = from_box(self.base, u.at[0].set(2 * place - 1))
        return latent, part_log_det + own_log_det + jnp.log(share) + log_det

    def _chosen(
        self,
        through: Callable[[int, Context, Vector], Mapped],
        chosen: Array,
        shares: Shares,
        context: Context,
        elsewhere: Callable[[int, Context], Vector],
        value: Vector,
    ) -> Mapped:
        """What the chosen part's map makes of `value`; the others get harmless inputs, so that no NaN leaks back."""
        results = []
        for k, (part, home) in enumerate(zip(self.constraint.parts, self.homes, strict=True)):
            x = own_context(part, context)
            if home is not None:
                x = jnp.where(shares[k] > 0, x, jnp.asarray(home, x.dtype))
            results.append(through(k, x, jnp.where(chosen == k, value, elsewhere(k, x))))
        first, second = (jnp.stack(values) for values in zip(*results, strict=True))
        return first[chosen], second[chosen]

    def _shares(self, context: Context) -> Shares:
        """w_k for the parts that are not empty at x, summing to one; all of them where the whole union is empty."""
        shares = jnp.asarray(self.weights, context.dtype)
        present = jnp.stack([self._is_present(k, context) for k in range(len(self.parts))])
        left = jnp.where(present | ~jnp.any(present), shares, 0.0)
        return lax.stop_gradient(left / jnp.sum(left))

    def _is_present(self, k: int, context: Context) -> Array:
        part = self.constraint.parts[k]
        if self.homes[k] is None:
            return jnp.asarray(True)
        x = own_context(part, context)
        if part.convex and is_iterative(part):  # a point whose worst row is least
            return jnp.max(part.rows(x, ColumnSet.at(part, x[:, None]).find_anchor()[:, 0])) <= TOLERANCE
        return project_columns(part, x[:, None], part.centre(x)[:, None])[1][0] != Outcome.EMPTY


def find_homes(constraint: Union, contexts: ContextDistribution) -> tuple[tuple[float, ...] | None, ...]:
    """Per part, a context in which it is not empty; None for those that are known to be so in every context."""
    x = contexts.sample(jax.random.key(0), CONTEXTS if contexts.size else 1)
    homes: list[tuple[float, ...] | None] = []
    for part in constraint.parts:
        own = x if part.context_dim else x[:, :0]
        if is_centre_inside(part):
            homes.append(None)
            continue
        found = part.projection(own, jax.vmap(part.centre, axis_size=len(x))(own)).outcome
        present = np.asarray(found) != Outcome.EMPTY
        home = tuple(np.asarray(own, float)[present.argmax()].tolist())
        homes.append(None if not part.context_dim and present.all() else home)
    return tuple(homes)


def volumes_and_overlap(
    constraint: Union, contexts: ContextDistribution
) -> tuple[tuple[float, ...], tuple[int, int] | None]:
    """Shares of the parts in the volume of the union, averaged over contexts, and a pair of parts that overlap."""
    x = contexts.sample(jax.random.key(1), CONTEXTS if contexts.size else 1)
    volumes: list[float] = []
    overlap = None
    for k, part in enumerate(constraint.parts):
        own = x if part.context_dim else x[:, :0]
        found = direct_samples(part, own, jax.random.key(2)).first(512)
        known = found.accepted.any(axis=1)
        volumes.append(float(np.mean(np.where(known, np.exp(found.log_volume), 0.0))))
        rows = np.asarray(
            jax.vmap(lambda x, some: jax.vmap(lambda a: constraint.part_rows(x, a))(some))(x, found.actions)
        )
        deep = (rows <= -OVERLAP) & found.accepted[..., None]
        deep[..., k] = False
        if deep.any() and overlap is None:
            overlap = k, int(np.argwhere(deep.any(axis=(0, 1)))[0, 0])
    shares = np.asarray(volumes)
    if not np.isfinite(shares).all() or shares.sum() <= 0:
        shares = np.ones(len(shares))
    shares = np.maximum(shares / shares.sum(), SMALLEST)
    return tuple((shares / shares.sum()).tolist()), overlap


def _why_not(constraint: AbstractConstraint, options: Options, contexts: ContextDistribution | None) -> str | None:
    return None if isinstance(constraint, Union) else "a Union"


def _make(
    constraint: Union,
    contexts: ContextDistribution,
    *,
    seed: int = 0,
    base: str = "normal",
    **options: object,
) -> UnionMap:
    weights, overlap = volumes_and_overlap(constraint, contexts)
    if overlap is not None:
        expected = f"a Union of disjoint parts for a `union` map, which must be invertible; parts {overlap} overlap"
        raise UnsuitableSetError(expected, constraint)
    parts = [
        make_map("auto", part, contexts if part.context_dim else NO_CONTEXT, seed=seed, base=base, **options)
        for part in constraint.parts
    ]
    return UnionMap(constraint, parts, weights=weights, homes=find_homes(constraint, contexts), base=base)


def _describe(map_: ActionMap) -> MapRecord:
    return {**plain_record(map_), "parts": [describe_map(part) for part in cast(UnionMap, map_).parts]}


def _rebuild(make: Maker, constraint: AbstractConstraint, record: MapRecord) -> ActionMap:
    pairs = zip(record["parts"], cast(Union, constraint).parts, strict=True)
    return make(constraint, [rebuild_map(shape, part) for shape, part in pairs], **record["settings"])


UNION = MapKind(
    *("union", UnionMap, "the latent's first coordinate chooses a part, whose own map does the rest", _make, _why_not),
    rank=10,
    passes_options=True,
    describe=_describe,
    rebuild=_rebuild,
)
