"""Limits on states as costs."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv


def test_ranges_read_costs_off_states():
    limits = cv.Ranges({1: (0.0, 2.0), 0: (-np.inf, 1.0)})
    assert limits.count == 3
    np.testing.assert_allclose(limits(np.array([[3.0, 0.5]])), [[-0.5, -1.5, 2.0]])
    np.testing.assert_allclose(limits(jnp.asarray([3.0, 0.5])), [-0.5, -1.5, 2.0])
    assert str(limits) == "0 ≤ s1 ≤ 2, -inf ≤ s0 ≤ 1"
    with pytest.raises(ValueError, match="low < high"):
        cv.Ranges({0: (1.0, 0.0)})


def test_planes_limit_weighted_sums():
    planes = cv.Planes([[1.0, 0.0, 1.0], [0.0, -2.0, 0.0]], [0.5, 1.0])
    states = np.random.default_rng(0).normal(size=(7, 3))
    expected = np.stack([states[:, 0] + states[:, 2] - 0.5, -2 * states[:, 1] - 1], axis=1)
    np.testing.assert_allclose(planes(states), expected)
    np.testing.assert_allclose(planes(jnp.asarray(states, jnp.float32)), expected, atol=1e-6)
    np.testing.assert_array_equal(planes.passed(states), expected > 1e-6)
    assert planes.names == ("s0 + s2 ≤ 0.5", "- 2·s1 ≤ 1")
    assert (planes.count, planes.largest_index) == (2, 2)


def test_faces_are_the_costs():
    ranges = cv.Ranges({1: (-1.0, 2.0), 0: (-math.inf, 3.0)})
    states = np.random.default_rng(0).normal(size=(5, 4))
    for limits in (ranges, cv.Planes(*ranges.faces(4))):
        normals, bounds = limits.faces(4)
        np.testing.assert_allclose(states @ normals.T - bounds, ranges(states))


@pytest.mark.parametrize(
    ("normals", "bounds", "message"),
    [
        ([], [], "`normals`: expected a table"),
        ([[1.0]], [1.0, 2.0], "`bounds`: expected 1 finite numbers"),
        ([[0.0]], [1.0], "`normals`: expected an entry that is not 0"),
        ([[math.nan]], [1.0], "`normals`: expected a table of finite numbers"),
    ],
)
def test_planes_refuse_nonsense(normals, bounds, message):
    with pytest.raises(ValueError, match=message):
        cv.Planes(normals, bounds)
