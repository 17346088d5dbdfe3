"""Random sets against what maps promise: a certified map is feasible, judged in float64, or does not call itself so."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.certified import certified, check
from benchmarks.random_sets import random_set

from cvflows.maps.kinds import make_map


def test_certified_maps_of_random_sets_are_feasible():
    """Every built-in set by itself, in two dimensions at most: those compile fast."""
    found = certified(0, 4, largest=2, most_parts=1)
    assert found["wrong"] == []
    assert found["certified"] >= 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("first", "last", "limits"), [(4, 30, {"largest": 2, "most_parts": 1}), (0, 5, {}), (5, 10, {})]
)
def test_certified_maps_of_more_random_sets_are_feasible(first, last, limits):
    """Those that follow, and the first intersections of three hundred; `python -m benchmarks.trust` tries them all."""
    found = certified(first, last, **limits)
    assert found["wrong"] == []
    assert found["certified"] >= (last - first) // 3


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [66, 71, 286])
def test_sets_that_were_wrongly_certified(seed):
    """A search that stopped early; a centre that lies outside in one context of some hundreds; a thin strip whose
    round trip lost digits.
    """
    assert check(seed) == (True, None)


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
