"""What certified means: proved from rows and bounds, probed in float64, refused where it fails."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cases import NO_CONTEXT
from cvflows.agents.rays import alpha, radial
from cvflows.constraints.sample import feasible_samples
from cvflows.constraints.slabs import Slab, slab_samples, sum_distribution
from cvflows.errors import ArgumentError
from cvflows.maps.certify import find_failure, largest_rows
from cvflows.maps.charts import Slices
from cvflows.maps.inside import inner_point, is_centre_inside, is_centred
from cvflows.maps.intervals import is_sliceable
from cvflows.maps.kinds import kind_of, make_map
from cvflows.maps.splines import SplineMap
from cvflows.maps.symmetry import find_symmetry

CORNER = cv.Box(2, 0.4, 1.0) & cv.Ball(2, 0.6)
"""The origin satisfies every row of the ball, and lies outside the box."""


def lobes(x, a):
    return a[0] ** 2 + a[1] ** 2 - 0.02 - 0.9 * a[0] ** 2 + 0.3 * jnp.cos(12 * a[1])


def test_an_origin_outside_the_bounds_is_no_centre():
    assert is_centred(cv.Ball(2, 0.6))
    assert not is_centred(CORNER)
    assert not is_sliceable(CORNER)
    assert is_sliceable(cv.Box(2, 0.4, 1.0))
    assert is_centred(cv.Box(2, 0.0, 1.0) & cv.Ball(2, 0.6))
    assert not is_centred(cv.Box(2, 0.0, 1.0) & cv.Ball(2, 0.6), 1e-3)
    assert is_centre_inside(cv.Tip(0.3))
    point = inner_point(CORNER, jnp.zeros(0))
    assert largest_rows(CORNER, jnp.zeros(0), point) < -0.01


def test_auto_certifies_what_lies_off_the_origin():
    map_ = make_map("auto", CORNER, NO_CONTEXT, splines=False)
    assert map_.certified
    assert kind_of(map_) == "gauge"
    quality = cv.measure(map_, NO_CONTEXT, latents=20_000, context_count=16)
    assert quality.infeasible == 0
    assert quality.recall > 0.97


def test_a_false_certificate_is_found():
    wrong = SplineMap(Slices(CORNER), find_symmetry(CORNER, NO_CONTEXT), (), splines=False)
    failure = find_failure(wrong, NO_CONTEXT)
    assert failure is not None
    assert failure.violation > 0.01
    assert failure.share > 0.3


def test_functions_that_close_over_numpy_arrays_are_judged_too():
    """Tracing leaves JAX with a float32 copy of such an array."""
    middle = np.asarray([0.1, 0.2], np.float64)
    own = cv.Constraint(lambda x, a: jnp.sum((a - middle) ** 2) - 0.2, 2, convex=True)
    actions = np.asarray([[0.1, 0.2], [0.9, 0.9]])
    np.testing.assert_allclose(largest_rows(own, np.zeros((2, 0)), actions), [-0.2, 0.93], atol=1e-6)


def test_a_kind_asked_for_by_name_is_refused_where_it_fails():
    """The function is called convex, and is not: rays leave it and come back."""
    lie = cv.Constraint(lobes, 2, convex=True, anchor=(0.9, 0.25))
    with pytest.raises(ArgumentError, match=r"`gauge` map can be certified for .* infeasible action at x=\(\)"):
        make_map("gauge", lie, NO_CONTEXT, splines=False)
    assert not make_map("auto", lie, NO_CONTEXT, width=4).certified


@pytest.mark.parametrize("decode", [alpha, lambda *given: radial(*given)[0]], ids=["alpha", "radial"])
@pytest.mark.parametrize(
    ("constraint", "contexts"),
    [(CORNER, NO_CONTEXT), (cv.HalfSpaces(2, 1), cv.Product((cv.Uniform(1, -0.2, 0.4), cv.Uniform(2, 0.5, 1.0))))],
    ids=["corner", "half-space"],
)
def test_rays_of_the_decoders_start_inside(decode, constraint, contexts):
    x = contexts.sample(jax.random.key(0), 64)
    outputs = 3 * jax.random.normal(jax.random.key(1), (64, 2))
    actions = jax.jit(jax.vmap(lambda x, v: decode(constraint, x, v)))(x, outputs)
    assert np.all(largest_rows(constraint, x, actions) <= cv.TOLERANCE)


def test_volume_of_a_simplex_and_of_cut_boxes():
    """A slab 2ε wide over the simplex has volume 2ε/(d-1)!; over a cut cube, 2ε times Irwin and Hall's density."""
    for dim in (2, 5, 8):
        found = feasible_samples(cv.Simplex(dim), jnp.zeros((1, 0)), jax.random.key(0))
        np.testing.assert_allclose(found.log_volume, math.log(2e-4 / math.factorial(dim - 1)), atol=5e-3)
        assert found.accepted.all()
    for total in (0.7, 1.5, 3.1):
        density = sum((-1) ** k * math.comb(4, k) * max(total - k, 0) ** 3 for k in range(5)) / math.factorial(3)
        found = feasible_samples(cv.Sum(4, total), jnp.zeros((1, 0)), jax.random.key(0))
        np.testing.assert_allclose(np.exp(found.log_volume), 2e-4 * density, rtol=5e-3)


def test_samples_of_a_simplex_are_dirichlet():
    """Each share of d = 5 is Beta(1, 4): mean 1/5, variance 4/150."""
    found = feasible_samples(cv.Simplex(5), jnp.zeros((4, 0)), jax.random.key(0))
    shares = np.asarray(found.actions).reshape(-1, 5)
    np.testing.assert_allclose(shares.mean(axis=0), 0.2, atol=0.01)
    np.testing.assert_allclose(shares.var(axis=0), 4 / 150, atol=0.002)


def test_slabs_of_any_normal():
    """3a₁ - a₂ within 0.05 of 0.5 on the square, by counting random points; an entry without weight is free."""
    slab = Slab(
        np.asarray([[3.0, -1.0, 0.0]]), np.asarray([0.5]), np.asarray([0.05]), -np.ones((1, 3)), np.ones((1, 3))
    )
    actions, log_volume = slab_samples(slab, 2000, seed=0)
    points = np.random.default_rng(0).uniform(-1, 1, (400_000, 3))
    inside = np.abs(3 * points[:, 0] - points[:, 1] - 0.5) <= 0.05
    np.testing.assert_allclose(np.exp(log_volume), 8 * inside.mean(), rtol=0.03)
    assert np.abs(3 * actions[0, :, 0] - actions[0, :, 1] - 0.5).max() <= 0.05 + 1e-9
    np.testing.assert_allclose(actions[0].mean(axis=0), points[inside].mean(axis=0), atol=0.05)
    np.testing.assert_allclose(actions[0].std(axis=0), points[inside].std(axis=0), atol=0.05)


def test_distribution_of_a_sum():
    grid, below = sum_distribution(np.asarray([[1.0, 1.0, 0.5]]))
    draws = np.random.default_rng(0).uniform(0, [1.0, 1.0, 0.5], (200_000, 3)).sum(axis=1)
    for s in (0.3, 1.0, 1.9):
        np.testing.assert_allclose(np.interp(s, grid[0], below[0]), np.mean(draws <= s), atol=5e-3)


@pytest.mark.thorough
def test_a_sum_near_the_edge_of_its_bounds_can_be_fitted():
    shares, contexts = cv.Sum(4, total=None, low=0.0, high=0.2), cv.Uniform(1, 0.05, 0.75)
    before = make_map("auto", shares, contexts, width=8, bins=4)
    fitted = cv.fit(before, contexts, cv.FitConfig(steps=150, batch=128))
    assert np.isfinite(fitted.losses).all()
    plain, after = (cv.measure(map_, contexts, latents=4000, context_count=16) for map_ in (before, fitted.map))
    assert after.infeasible == 0
    assert 0 <= after.kl < plain.kl
