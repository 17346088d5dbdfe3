"""Limits on states as costs."""

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
