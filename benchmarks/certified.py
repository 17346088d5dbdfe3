"""Random sets against what maps promise: a certified map is feasible, judged in float64, or does not call itself so."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.random_sets import random_set

SEEDS = (11, 12, 13)
LATENTS = 20_000
KEPT = 8
"""Sets whose compiled code is kept: that of hundreds would fill the memory, but what sets share is compiled once."""
NEAR = 1e-3
"""How exactly an action's latent must give the action back."""
DIGITS = 1e-6
"""Where a set is only δ deep, float32 can tell its actions apart to this over δ: along a strip, rounding across it
counts 1/δ times.
"""


def certified(first: int, last: int, **limits: int) -> dict[str, Any]:
    """The maps that `auto` makes for random sets with seeds in [first, last): how many are certified, what is wrong.

    `limits` are those of `random_set`.
    """
    found, wrong = 0, []
    for seed in range(first, last):
        own, problem = check(seed, **limits)
        found += own
        wrong += [problem] if problem else []
        if (seed - first) % KEPT == KEPT - 1:
            jax.clear_caches()
    return {"sets": last - first, "certified": found, "wrong": wrong}


def check(seed: int, **limits: int) -> tuple[bool, str | None]:
    """Whether the map of a random set is certified, and what it promises without keeping it."""
    from cvflows.constraints.base import TOLERANCE
    from cvflows.maps.certify import depths, has_inside, push_latents, try_latents
    from cvflows.maps.kinds import make_map

    drawn = random_set(seed, **limits)
    constraint, name = drawn.constraint, f"{drawn.words} (seed {seed})"
    map_ = make_map("auto", constraint, drawn.contexts, splines=False)
    if not map_.certified:
        return False, None
    for own in SEEDS:
        x, latents, actions, log_dets = try_latents(map_, drawn.contexts, seed=own)
        assert latents.shape[0] * latents.shape[1] * len(SEEDS) >= LATENTS
        bad, lost = _largest_rows(constraint, x, actions) > TOLERANCE, ~np.isfinite(np.asarray(log_dets))
        if bad.any() or lost.any():
            inside = has_inside(constraint, x)
            if bad[inside].any():
                return True, f"{name}: {bad[inside].sum()} infeasible"
            if lost[inside].any():
                return True, f"{name}: log-determinant not finite"
    back, _ = _pull(map_, actions, x)
    away = np.abs(np.asarray(push_latents(map_, back, x)[0]) - np.asarray(actions)).max(axis=(1, 2))
    if not (away < NEAR).all():
        near = (
            np.maximum(NEAR, DIGITS / np.maximum(depths(constraint, x), 1e-12))
            if constraint.convex
            else np.full(len(x), NEAR)
        )
        if (~(away < near))[has_inside(constraint, x)].any():
            return True, f"{name}: no round trip"
    return True, None


def _largest_rows(constraint: Any, x: Any, actions: Any) -> np.ndarray:
    """The largest row in float64, by another road than the library's own."""
    from cvflows.constraints.base import all_rows
    from cvflows.constraints.precision import double_precision

    with double_precision():
        wide = jnp.asarray(np.asarray(x, float)), jnp.asarray(np.asarray(actions, float))
        each = jax.vmap(lambda x, some: jax.vmap(lambda a: all_rows(constraint, x, a))(some))
        return np.asarray(jax.jit(each)(*wide)).max(axis=-1)


@eqx.filter_jit
def _pull(map_: Any, actions: Any, x: Any) -> Any:
    return jax.vmap(lambda some, x: jax.vmap(lambda a: map_.inverse(a, x))(some))(actions, x)
