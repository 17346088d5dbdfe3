"""Distributions of contexts."""

import math

import jax
import numpy as np

import cvflows as cv


def test_contexts_follow_their_distribution():
    key = jax.random.key(0)
    both = cv.Product((cv.Uniform(2, -10, 10), cv.Normal(1, 3.0, 15.0)))
    drawn = np.asarray(both.sample(key, 20_000))
    assert drawn.shape == (20_000, 3)
    np.testing.assert_allclose(drawn.mean(axis=0), [0, 0, 3], atol=0.4)
    np.testing.assert_allclose(drawn.std(axis=0), [20 / math.sqrt(12)] * 2 + [15], rtol=0.03)
    seen = cv.Observed(np.eye(3))
    assert set(map(tuple, np.asarray(seen.sample(key, 50)).tolist())) <= set(map(tuple, np.eye(3).tolist()))
