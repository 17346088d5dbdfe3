"""Slabs that a linear equality leaves: volumes and samples, against closed forms and counted points."""

import math

import jax
import jax.numpy as jnp
import numpy as np

import cvflows as cv
from cvflows.constraints.sample import feasible_samples
from cvflows.constraints.slabs import Slab, slab_samples, sum_distribution


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
