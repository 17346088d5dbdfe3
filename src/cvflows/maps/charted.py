"""Kinds of maps that fill a chart: splines over slices, a gauge, a shell, or a box whose feasibility is learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import cast

import jax
import jax.numpy as jnp

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.contexts import ContextDistribution
from cvflows.maps.base import ActionMap
from cvflows.maps.charts import Chart, Extents, Gauge, Slices
from cvflows.maps.coupling import SplineCoupling
from cvflows.maps.gauge import gauge
from cvflows.maps.inside import centres_to_try, is_searched_for, why_not_star_shaped
from cvflows.maps.intervals import is_sliceable
from cvflows.maps.registry import Maker, MapKind, MapRecord, Options, SymmetryRecord, find_chart, plain_record
from cvflows.maps.shares import Shares, is_shared
from cvflows.maps.spherical import Shells, Surroundings, find_radii, is_shell
from cvflows.maps.splines import SplineMap, typical_sizes
from cvflows.maps.symmetry import Symmetry, find_symmetry

PROBES = 256
Charted = Callable[..., ActionMap]
"""Made from a chart, its symmetry and the typical sizes of contexts."""


def _describe(map_: ActionMap) -> MapRecord:
    charted = cast("SplineMap | SplineCoupling", map_)
    options = {name: value for name, value in vars(charted.chart).items() if name != "constraint"}
    chart = {"kind": type(charted.chart).__name__, **options}
    symmetry = cast(SymmetryRecord, asdict(charted.symmetry))
    return {**plain_record(map_), "chart": chart, "symmetry": symmetry}


def _rebuild(make: Maker, constraint: AbstractConstraint, record: MapRecord) -> ActionMap:
    options = dict(record["chart"])
    chart = find_chart(options.pop("kind"))(constraint, **options)
    found = record["symmetry"]
    symmetry = Symmetry(tuple(found["even"]), tuple(found["partner"]), tuple(found["blind"]))
    return make(chart, symmetry, **record["settings"])


def on_chart(chart: Chart, contexts: ContextDistribution, options: Options, make: Charted = SplineMap) -> ActionMap:
    """A map over a chart, its symmetry and the typical sizes of contexts looked for."""
    return make(chart, find_symmetry(chart.constraint, contexts), typical_sizes(contexts), **options)


def charted_kind(
    name: str,
    charts: tuple[type[Chart], ...],
    description: str,
    make: Maker,
    *,
    map_: type[ActionMap] = SplineMap,
    **further: object,
) -> MapKind:
    """A kind whose maps are splines over one of some charts; `further` arguments are those of `MapKind`."""
    build: Callable[..., MapKind] = MapKind
    return build(name, map_, description, make, charts=charts, describe=_describe, rebuild=_rebuild, **further)


def _box_spline(constraint: AbstractConstraint, contexts: ContextDistribution, **options: object) -> ActionMap:
    radii = find_radii(constraint, contexts)
    if radii is not None:  # thin shells want fine bins
        return on_chart(Surroundings(constraint, *radii), contexts, {"bins": 12, "least": 1e-4, **options})
    return on_chart(_extents(constraint, contexts), contexts, options)


def _coupling(constraint: AbstractConstraint, contexts: ContextDistribution, **options: object) -> ActionMap:
    radii = find_radii(constraint, contexts)
    chart = _extents(constraint, contexts) if radii is None else Surroundings(constraint, *radii)
    return on_chart(chart, contexts, options, SplineCoupling)


def _slice(constraint: AbstractConstraint, contexts: ContextDistribution, **options: object) -> ActionMap:
    return on_chart(Slices(constraint), contexts, options)


def _share(constraint: AbstractConstraint, contexts: ContextDistribution, **options: object) -> ActionMap:
    return on_chart(Shares(constraint), contexts, options)


def _why_not_shared(
    constraint: AbstractConstraint, options: Options, contexts: ContextDistribution | None
) -> str | None:
    return None if is_shared(constraint) else "shares of a total with fixed bounds (try `slice` or `gauge`)"


def _gauge(
    constraint: AbstractConstraint,
    contexts: ContextDistribution,
    *,
    star_shaped: bool = False,
    anchored: bool = False,
    **options: object,
) -> ActionMap:
    return on_chart(Gauge(constraint, is_searched_for(constraint, contexts, anchored)), contexts, options)


def _shell(constraint: AbstractConstraint, contexts: ContextDistribution, **options: object) -> ActionMap:
    return on_chart(Shells(constraint), contexts, options)


def _why_not_sliced(
    constraint: AbstractConstraint, options: Options, contexts: ContextDistribution | None
) -> str | None:
    if is_sliceable(constraint) or (contexts is not None and shrinks_to_zero(constraint, contexts)):
        return None
    return "a set that keeps its actions when entries are set to zero, a half-space or a total (try `gauge`)"


def _why_not_shell(
    constraint: AbstractConstraint, options: Options, contexts: ContextDistribution | None
) -> str | None:
    return None if is_shell(constraint) else "a Shell of dimension 2 or more"


def _extents(constraint: AbstractConstraint, contexts: ContextDistribution) -> Extents:
    return Extents(constraint, axes=is_sliceable(constraint) or shrinks_to_zero(constraint, contexts))


def shrinks_to_zero(constraint: AbstractConstraint, contexts: ContextDistribution) -> bool:
    """Whether actions at the set's edge stay feasible when an entry is set to zero, tried on random rays."""
    dim = constraint.action_dim
    keys = jax.random.split(jax.random.key(0))
    x = contexts.sample(keys[0], PROBES)
    rays = jax.random.normal(keys[1], (PROBES, dim))
    if not bool(jnp.all(constraint.contains(x, jnp.zeros((PROBES, dim))))):
        return False

    @jax.jit
    @jax.vmap
    def stays(x: jax.Array, ray: jax.Array) -> jax.Array:
        zero = jnp.zeros(dim)
        edge = ray / gauge(constraint, x, zero, ray, at_zero=False)
        rows = jax.vmap(lambda keep: constraint.rows(x, edge * keep))(1 - jnp.eye(dim))
        return jnp.all(rows <= 1e-4)

    return bool(jnp.all(stays(x, rays)))


LEARNED = (Extents, Surroundings)
BOX_SPLINE = charted_kind(
    "boxspline", LEARNED, "fills the set's extents, or coordinates around a hole; learned", _box_spline, rank=1000
)
COUPLING = charted_kind("coupling", LEARNED, "the same with spline couplings; learned", _coupling, map_=SplineCoupling)
SLICE = charted_kind(
    "slice", (Slices,), "each entry fills its feasible interval", _slice, why_not=_why_not_sliced, rank=30
)
SHARE = charted_kind(
    *("share", (Shares,), "shares of a total, uniform but for what splines correct", _share),
    why_not=_why_not_shared,
    rank=25,
)
SHELL = charted_kind(
    "shell", (Shells,), "spherical coordinates of a shell cut by the box", _shell, why_not=_why_not_shell, rank=40
)
GAUGE = charted_kind(
    "gauge",
    (Gauge,),
    "a box of extents pulled onto the set, ray by ray",
    _gauge,
    why_not=why_not_star_shaped,
    rank=50,
    variants=centres_to_try,
)
