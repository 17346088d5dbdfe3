"""Random sets against what maps promise: a certified map is feasible, judged in float64, or does not call itself so."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.random_sets import random_set

from cvflows.constraints.base import TOLERANCE, all_rows
from cvflows.maps.certify import has_inside, try_latents
from cvflows.maps.kinds import make_map

SEEDS = (11, 12, 13)


@eqx.filter_jit
def pull(map_, actions, x):
    return jax.vmap(lambda some, x: jax.vmap(lambda a: map_.inverse(a, x))(some))(actions, x)


@eqx.filter_jit
def push(map_, latents, x):
    return jax.vmap(lambda some, x: jax.vmap(lambda z: map_.forward(z, x))(some))(latents, x)


def violations(constraint, x, actions):
    """The largest row in float64, by another road than the library's own."""
    with jax.enable_x64(True):
        wide = jnp.asarray(np.asarray(x, float)), jnp.asarray(np.asarray(actions, float))
        rows = jax.vmap(lambda x, some: jax.vmap(lambda a: all_rows(constraint, x, a))(some))(*wide)
        return np.asarray(rows).max(axis=-1)


def check(seed, **limits):
    """Whether the map of a random set is certified; asserts what it promises."""
    drawn = random_set(seed, **limits)
    constraint = drawn.constraint
    map_ = make_map("auto", constraint, drawn.contexts, splines=False)
    if not map_.certified:
        return False
    for own in SEEDS:
        x, latents, actions, log_dets = try_latents(map_, drawn.contexts, seed=own)
        assert latents.shape[0] * latents.shape[1] * len(SEEDS) >= 20_000
        bad = violations(constraint, x, actions) > TOLERANCE
        lost = ~np.isfinite(np.asarray(log_dets))
        if bad.any() or lost.any():
            inside = has_inside(constraint, x)
            assert not bad[inside].any(), f"{drawn.words} (seed {seed}): {bad[inside].sum()} infeasible"
            assert not lost[inside].any(), f"{drawn.words} (seed {seed}): log-determinant not finite"
    back, _ = pull(map_, actions, x)
    again = np.asarray(push(map_, back, x)[0])
    away = np.abs(again - np.asarray(actions)).max(axis=(1, 2))
    if not (away < 1e-3).all():
        assert not (away[has_inside(constraint, x)] >= 1e-3).any(), f"{drawn.words} (seed {seed}): no round trip"
    return True


def test_certified_maps_of_random_sets_are_feasible():
    """Every built-in set by itself; intersections, which compile longer, are among the many below."""
    certified = 0
    for seed in range(30):
        certified += check(seed, largest=2, most_parts=1)
        jax.clear_caches()
    assert certified >= 15


@pytest.mark.thorough
@pytest.mark.parametrize("block", range(10))
def test_certified_maps_of_many_random_sets_are_feasible(block):
    """In blocks: compiled code of hundreds of maps would fill the memory."""
    certified = 0
    for seed in range(30 * block, 30 * block + 30):
        certified += check(seed)
        jax.clear_caches()
    assert certified >= 10


def test_plain_jit_takes_a_bound_method():
    drawn = random_set(14)
    map_ = make_map("auto", drawn.constraint, drawn.contexts, width=4)
    latent, x = jnp.full(drawn.constraint.action_dim, 0.3), jnp.zeros(drawn.contexts.size)
    action, log_det = map_.forward(latent, x)
    np.testing.assert_allclose(jax.jit(map_.forward)(latent, x)[0], action, atol=1e-6)
    np.testing.assert_allclose(jax.jit(map_.inverse)(action, x)[0], latent, atol=1e-3)
    np.testing.assert_allclose(jax.jit(jax.vmap(map_.forward))(latent[None], x[None])[1], log_det[None], atol=1e-5)
    assert map_.forward == map_.forward
    assert map_.forward != map_.inverse
    arrays = jax.tree.leaves(eqx.filter(map_.forward, eqx.is_array))
    assert len(arrays) == len(jax.tree.leaves(eqx.filter(map_, eqx.is_array)))
