"""Unions: rows, projection, maximiser and samples."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cases import DISCS, GATES, LEFT_DISC, RIGHT_DISC
from cvflows.constraints.reference import UnionSolver
from cvflows.constraints.sample import feasible_samples
from cvflows.constraints.spec import describe, rebuild
from cvflows.errors import ArgumentError


def test_an_action_is_allowed_where_one_part_allows_it():
    a = np.random.default_rng(0).uniform(-1, 1, (500, 2)).astype(np.float32)
    either = np.asarray(LEFT_DISC.contains(None, a)) | np.asarray(RIGHT_DISC.contains(None, a))
    np.testing.assert_array_equal(DISCS.contains(None, a), either)
    cut = DISCS & cv.Ball(2, 0.7)
    assert isinstance(cut, cv.Union)
    assert isinstance(cv.Ball(2, 0.7) & DISCS, cv.Union)
    np.testing.assert_array_equal(cut.contains(None, a), either & np.asarray(cv.Ball(2, 0.7).contains(None, a)))
    assert cv.Union(DISCS, LEFT_DISC).parts == (LEFT_DISC, RIGHT_DISC, LEFT_DISC)
    assert GATES.reads((1,), of=3).context_dim == 3


def test_projection_and_maximiser_take_the_best_part():
    a = np.random.default_rng(1).uniform(-2, 2, (60, 2)).astype(np.float32)
    near, far = DISCS.projection(None, a), DISCS.maximisation(None, a)
    assert np.all(near.outcome == cv.Outcome.EXACT)
    assert np.all(far.outcome == cv.Outcome.EXACT)
    assert np.all(np.asarray(DISCS.violation(None, near.action)) == 0)
    solver = UnionSolver(DISCS)
    for i in range(24):
        distance = np.linalg.norm(solver.project(np.zeros(0), a[i]) - a[i])
        np.testing.assert_allclose(near.distance[i], distance, atol=1e-4)
        best = solver.maximise(np.zeros(0), a[i]) @ a[i]
        np.testing.assert_allclose(far.action[i] @ a[i], best, atol=1e-4)


def test_projection_leaves_out_parts_that_are_empty():
    x = np.asarray([[-0.7], [0.05], [0.9]], np.float32)
    found = GATES.projection(x, np.zeros((3, 1), np.float32))
    np.testing.assert_allclose(np.asarray(found.action)[:, 0], [0.0, -0.55, 0.0], atol=1e-4)
    assert np.all(found.outcome == cv.Outcome.EXACT)


@pytest.mark.thorough
def test_samples_are_uniform_on_the_union():
    """Also where the parts overlap: discs of radius ½ whose centres are ½ apart share 0.3910 of a disc."""
    found = feasible_samples(DISCS, jnp.zeros((1, 0)), jax.random.key(0))
    actions = np.asarray(found.actions)[found.accepted]
    np.testing.assert_allclose(np.exp(found.log_volume), np.pi / 16 + np.pi / 25, rtol=0.03)
    np.testing.assert_allclose(np.mean(actions[:, 0] < 0), 25 / 41, atol=0.02)
    lens = cv.Union(*(cv.Ellipsoid(4 * np.eye(2), middle=(side, 0.0)) for side in (-0.25, 0.25)))
    overlapping = feasible_samples(lens, jnp.zeros((1, 0)), jax.random.key(0))
    np.testing.assert_allclose(np.exp(overlapping.log_volume), (2 - 0.3910) * np.pi / 4, rtol=0.03)
    shared = np.asarray(overlapping.actions)[overlapping.accepted]
    np.testing.assert_allclose(np.mean(shared[:, 0] < 0), 0.5, atol=0.03)


def test_a_union_survives_the_trip_through_json():
    assert rebuild(json.loads(json.dumps(describe(DISCS)))) == DISCS


def test_bad_parts_are_named():
    for parts in [(), (LEFT_DISC, cv.Ball(3, 0.5)), (cv.MaxPower(2, 1.0), cv.HalfSpaces(2, 2))]:
        with pytest.raises(ArgumentError, match=r"^`parts`: expected "):
            cv.Union(*parts)
