"""Corrections of an action by the constraint's rows: the penalty, and one step against the worst row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cvflows.agents.corrections import correct_worst, penalty


def test_penalty_is_the_distance_to_a_half_space_and_to_a_ball_nearby():
    plane = cv.HalfSpaces(2, 1)
    x = jnp.array([-0.2, 3.0, 4.0])  # 3a₁ + 4a₂ ≤ 0.2
    outside = jnp.array([0.5, 0.5])
    assert float(penalty(plane, x, outside)) == pytest.approx((3.5 - 0.2) / 5, rel=1e-5)
    slope = jax.grad(lambda a: penalty(plane, x, a))(outside)
    np.testing.assert_allclose(slope, [0.6, 0.8], rtol=1e-5)
    ball = cv.Ball(2, 0.5)
    assert float(penalty(ball, jnp.zeros(0), jnp.array([0.51, 0.0]))) == pytest.approx(0.01, rel=0.02)
    inside = jax.value_and_grad(lambda a: penalty(ball, jnp.zeros(0), a))(jnp.zeros(2))
    assert float(inside[0]) == 0
    assert not np.any(inside[1])


def test_one_step_against_the_worst_row_projects_onto_it():
    plane, x = cv.HalfSpaces(2, 1), jnp.array([-0.2, 3.0, 4.0])
    for a in ([0.5, 0.5], [0.1, 0.2], [0.01, 0.01]):
        expected = plane.project(x, jnp.array(a))
        np.testing.assert_allclose(correct_worst(plane, x, jnp.array(a)), expected, atol=1e-5)
