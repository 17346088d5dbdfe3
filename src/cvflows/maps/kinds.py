"""Which map for which set: every kind by name, and `auto`, which certifies where the set allows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cvflows.constraints.base import AbstractConstraint, all_rows
from cvflows.constraints.contexts import ContextDistribution, Uniform
from cvflows.constraints.structure import Radial
from cvflows.constraints.union import Union
from cvflows.errors import ArgumentError, UnsuitableSetError, look_up
from cvflows.maps.base import ActionMap
from cvflows.maps.certify import find_failure
from cvflows.maps.charts import Chart, Extents, Gauge, Slices
from cvflows.maps.coupling import RealNVP, SplineCoupling
from cvflows.maps.inside import ROOM, is_centre_inside
from cvflows.maps.intervals import is_sliceable
from cvflows.maps.orb import Orb, radii
from cvflows.maps.rays import gauge
from cvflows.maps.spherical import Shells, Surroundings, find_radii, is_shell
from cvflows.maps.splines import SplineMap, typical_sizes
from cvflows.maps.symmetry import find_symmetry
from cvflows.maps.union import UnionMap, find_homes, volumes_and_overlap

PROBES = 256
NO_CONTEXT = Uniform(0, -1, 1)
Maker = Callable[..., ActionMap]


def make_map(
    kind: str, constraint: AbstractConstraint, contexts: ContextDistribution, *, seed: int = 0, **options: Any
) -> ActionMap:
    """An unfitted map of a named kind: `make_map("auto", task.constraint, task.contexts)`.

    A map that is feasible by construction is probed before it is returned (see `certify.py`). Where one fails, `auto`
    takes the next kind, in the end `boxspline`, which learns; a kind asked for by name raises an error.

    **Arguments:**

    - `kind`: `boxspline` and `realnvp` learn the set from its violation; `coupling` is the former with couplings;
      `orb`, `slice`, `shell` and `gauge` are feasible by construction, and so is `union` where the maps of its parts
      are; `auto` takes the first of these that fits.
    - `contexts`: p_S; scales, symmetries and radii are read off its samples and the constraint's rows.
    - `options`: of the map's class, such as `base="uniform"`, `splines=False`, `bins`, `width`.
    """
    if contexts.size != constraint.context_dim:
        raise ArgumentError("contexts", f"{constraint.context_dim} entries, the context_dim", contexts.size)
    name = kind.casefold()
    make = None if name == "auto" else look_up("map", kind, KINDS)
    failure: object = None
    for attempt in kinds_for(constraint) if make is None else (name,):
        if make is None and attempt == "orb" and options.get("base", "normal") != "normal":
            continue
        own = {} if make is None and attempt == "orb" else options  # an orb has none of the options of others
        for variant in _variants(attempt, constraint):
            try:
                map_ = KINDS[attempt](constraint, contexts, seed=seed, **own, **variant)
            except UnsuitableSetError as error:
                if make is not None:
                    raise
                failure = error
                continue
            failure = find_failure(map_, contexts) if map_.certified else None
            if failure is None:
                return map_
    expected = f"a set that a `{name}` map can be certified for (`boxspline` learns any)"
    raise ArgumentError("constraint", expected, f"{constraint}, with {failure}")


def kinds_for(constraint: AbstractConstraint) -> tuple[str, ...]:
    """The certified kinds that the set's rows and bounds allow, the best first, and `boxspline`, which any set does."""
    fits = {
        "union": isinstance(constraint, Union),
        "orb": radii(constraint) is not None,
        "slice": is_sliceable(constraint),
        "shell": is_shell(constraint),
        "gauge": constraint.convex,
    }
    return (*(kind for kind, fit in fits.items() if fit), "boxspline")


def kind_for(constraint: AbstractConstraint) -> str:
    """The kind that `auto` tries first: certified if the set's rows and bounds allow one."""
    return kinds_for(constraint)[0]


def kind_of(map_: ActionMap) -> str:
    """The name of a map's kind."""
    match map_:
        case Orb():
            return "orb"
        case UnionMap():
            return "union"
        case RealNVP():
            return "realnvp"
        case SplineCoupling():
            return "coupling"
        case SplineMap(chart=Slices()):
            return "slice"
        case SplineMap(chart=Gauge()):
            return "gauge"
        case SplineMap(chart=Shells()):
            return "shell"
    return "boxspline"


def _variants(kind: str, constraint: AbstractConstraint) -> tuple[dict[str, Any], ...]:
    """Options to try in turn: a gauge first about the set's own centre, then about one that is searched for."""
    if kind != "gauge" or not constraint.convex:
        return ({},)
    return ({},) if is_centre_inside(constraint) else ({}, {"anchored": True})


def _on_chart(chart: Chart, contexts: ContextDistribution, **options: Any) -> SplineMap:
    return SplineMap(chart, find_symmetry(chart.constraint, contexts), typical_sizes(contexts), **options)


def _box_spline(constraint: AbstractConstraint, contexts: ContextDistribution, **options: Any) -> ActionMap:
    radii = find_radii(constraint, contexts)
    if radii is not None:  # thin shells want fine bins
        return _on_chart(Surroundings(constraint, *radii), contexts, **{"bins": 12, "least": 1e-4, **options})
    return _on_chart(_extents(constraint, contexts), contexts, **options)


def _coupling(constraint: AbstractConstraint, contexts: ContextDistribution, **options: Any) -> ActionMap:
    radii = find_radii(constraint, contexts)
    chart = _extents(constraint, contexts) if radii is None else Surroundings(constraint, *radii)
    return SplineCoupling(chart, find_symmetry(constraint, contexts), typical_sizes(contexts), **options)


def _slice(constraint: AbstractConstraint, contexts: ContextDistribution, **options: Any) -> ActionMap:
    if not is_sliceable(constraint) and not shrinks_to_zero(constraint, contexts):
        expected = "a set that keeps its actions when entries are set to zero, a half-space or a total (try `gauge`)"
        raise ArgumentError("constraint", expected, constraint)
    return _on_chart(Slices(constraint), contexts, **options)


def _gauge(
    constraint: AbstractConstraint,
    contexts: ContextDistribution,
    *,
    star_shaped: bool = False,
    anchored: bool = False,
    **options: Any,
) -> ActionMap:
    hollow = isinstance(constraint.structure(jnp.zeros(constraint.context_dim)), Radial)
    if hollow or not (constraint.convex or star_shaped):
        expected = "a convex set, or `star_shaped=True` if every ray from its centre leaves it once"
        raise ArgumentError("constraint", expected, constraint)
    x = contexts.sample(jax.random.key(0), PROBES)
    worst = jax.jit(jax.vmap(lambda x: jnp.max(all_rows(constraint, x, constraint.centre(x)))))(x)
    outside = float(jnp.max(worst)) > -ROOM
    if outside and not constraint.convex:
        raise ArgumentError("constraint", "a `centre` inside the set in every context", np.asarray(x)[worst.argmax()])
    return _on_chart(Gauge(constraint, anchored=anchored or outside), contexts, **options)


def _shell(constraint: AbstractConstraint, contexts: ContextDistribution, **options: Any) -> ActionMap:
    return _on_chart(Shells(constraint), contexts, **options)


def _real_nvp(constraint: AbstractConstraint, contexts: ContextDistribution, **options: Any) -> ActionMap:
    return RealNVP(constraint, typical_sizes(contexts), **options)


def _orb(constraint: AbstractConstraint, contexts: ContextDistribution, *, seed: int = 0) -> ActionMap:
    return Orb(constraint)


def _union(
    constraint: AbstractConstraint,
    contexts: ContextDistribution,
    *,
    seed: int = 0,
    base: str = "normal",
    **options: Any,
) -> ActionMap:
    if not isinstance(constraint, Union):
        raise UnsuitableSetError("a Union", constraint)
    weights, overlap = volumes_and_overlap(constraint, contexts)
    if overlap is not None:
        expected = f"a Union of disjoint parts for a `union` map, which must be invertible; parts {overlap} overlap"
        raise UnsuitableSetError(expected, constraint)
    parts = [
        make_map("auto", part, contexts if part.context_dim else NO_CONTEXT, seed=seed, base=base, **options)
        for part in constraint.parts
    ]
    return UnionMap(constraint, parts, weights=weights, homes=find_homes(constraint, contexts), base=base)


KINDS: dict[str, Maker] = {
    "boxspline": _box_spline,
    "coupling": _coupling,
    "realnvp": _real_nvp,
    "slice": _slice,
    "gauge": _gauge,
    "shell": _shell,
    "orb": _orb,
    "union": _union,
}


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
