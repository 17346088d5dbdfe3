"""Products of rounded factors: beside double precision, in both directions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cvflows.agents.networks import Perceptron
from cvflows.agents.products import rounded_product

ROUNDING = 2.0**-8
"""The largest relative error of a number that is rounded to bfloat16."""


def near(found, x, w):
    """Whether `found` is x·w up to the rounding of either factor, and float32's of the sum."""
    exact, most = x @ w, np.abs(x) @ np.abs(w) * (2.1 * ROUNDING)
    return np.all(np.abs(np.asarray(found, np.float64) - exact) <= most)


@pytest.mark.parametrize("shape", [(5, 7, 3), (64, 32, 48), (1, 1, 1)])
def test_products_and_their_gradients_are_right_up_to_the_rounding_of_factors(shape):
    rng, (rows, inner, columns) = np.random.default_rng(0), shape
    x, w, slope = (rng.normal(size=size) for size in ((rows, inner), (inner, columns), (rows, columns)))
    found, back = jax.vjp(rounded_product, jnp.asarray(x, jnp.float32), jnp.asarray(w, jnp.float32))
    by_x, by_w = back(jnp.asarray(slope, jnp.float32))
    assert found.dtype == by_x.dtype == by_w.dtype == jnp.float32
    assert near(found, x, w)
    assert near(by_x, slope, w.T)
    assert near(by_w, x.T, slope)


def test_rounding_is_not_left_out():
    x, w = jnp.full((1, 1), 1 + 2.0**-10), jnp.ones((1, 1))
    assert float(rounded_product(x, w)[0, 0]) == 1.0


def test_inputs_and_outputs_of_a_network_are_not_rounded():
    rng = np.random.default_rng(0)
    exact, rounded = (Perceptron((3, 16, 2), precision=name) for name in ("float32", "bfloat16"))
    parameters, x = exact.init(rng), jnp.asarray(rng.normal(size=(4, 3)), jnp.float32)
    np.testing.assert_array_equal(exact(parameters, x), rounded(parameters, x))
    exact, rounded = (Perceptron((3, 16, 16, 2), precision=name) for name in ("float32", "bfloat16"))
    parameters = exact.init(rng)
    apart = np.abs(np.asarray(exact(parameters, x)) - np.asarray(rounded(parameters, x)))
    assert 0 < apart.max() < 0.02
