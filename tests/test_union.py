"""Unions: rows, projection, maximiser, samples, the map that reaches every part, and the warning without one."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cases import NO_CONTEXT
from cvflows.constraints.sample import feasible_samples
from cvflows.constraints.solver import UnionSolver
from cvflows.constraints.spec import describe, rebuild
from cvflows.errors import ArgumentError, DisconnectedSetWarning
from cvflows.maps.kinds import kind_of, make_map
from cvflows.maps.pieces import count_pieces, warn_if_disconnected

LEFT = cv.Ellipsoid(16 * np.eye(2), middle=(-0.6, 0.0))
RIGHT = cv.Ellipsoid(25 * np.eye(2), middle=(0.6, 0.2))
BOTH = cv.Union(LEFT, RIGHT)


def upper(x):
    return x[:1] + 0.5, jnp.ones((1, 1))


def lower(x):
    return 0.6 - x[:1], -jnp.ones((1, 1))


GATES = cv.Union(cv.HalfSpaces(1, 1, upper, context_dim=1), cv.HalfSpaces(1, 1, lower, context_dim=1))
"""a ≤ -x - ½, empty for x > ½; a ≥ 0.6 - x, empty for x < -0.4."""


def two_balls(x, a):
    return jnp.minimum(LEFT.rows(x, a)[0], RIGHT.rows(x, a)[0])


def test_an_action_is_allowed_where_one_part_allows_it():
    a = np.random.default_rng(0).uniform(-1, 1, (500, 2)).astype(np.float32)
    either = np.asarray(LEFT.contains(None, a)) | np.asarray(RIGHT.contains(None, a))
    np.testing.assert_array_equal(BOTH.contains(None, a), either)
    cut = BOTH & cv.Ball(2, 0.7)
    assert isinstance(cut, cv.Union)
    assert isinstance(cv.Ball(2, 0.7) & BOTH, cv.Union)
    np.testing.assert_array_equal(cut.contains(None, a), either & np.asarray(cv.Ball(2, 0.7).contains(None, a)))
    assert cv.Union(BOTH, LEFT).parts == (LEFT, RIGHT, LEFT)
    assert GATES.reads((1,), of=3).context_dim == 3


def test_projection_and_maximiser_take_the_best_part():
    a = np.random.default_rng(1).uniform(-2, 2, (60, 2)).astype(np.float32)
    near, far = BOTH.projection(None, a), BOTH.maximisation(None, a)
    assert np.all(near.outcome == cv.Outcome.EXACT)
    assert np.all(far.outcome == cv.Outcome.EXACT)
    assert np.all(np.asarray(BOTH.violation(None, near.action)) == 0)
    solver = UnionSolver(BOTH)
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


def test_samples_are_uniform_on_the_union():
    """Also where the parts overlap: discs of radius ½ whose centres are ½ apart share 0.3910 of a disc."""
    found = feasible_samples(BOTH, jnp.zeros((1, 0)), jax.random.key(0))
    actions = np.asarray(found.actions)[found.accepted]
    np.testing.assert_allclose(np.exp(found.log_volume), np.pi / 16 + np.pi / 25, rtol=0.03)
    np.testing.assert_allclose(np.mean(actions[:, 0] < 0), 25 / 41, atol=0.02)
    lens = cv.Union(*(cv.Ellipsoid(4 * np.eye(2), middle=(side, 0.0)) for side in (-0.25, 0.25)))
    overlapping = feasible_samples(lens, jnp.zeros((1, 0)), jax.random.key(0))
    np.testing.assert_allclose(np.exp(overlapping.log_volume), (2 - 0.3910) * np.pi / 4, rtol=0.03)
    shared = np.asarray(overlapping.actions)[overlapping.accepted]
    np.testing.assert_allclose(np.mean(shared[:, 0] < 0), 0.5, atol=0.03)


@pytest.mark.parametrize(
    ("constraint", "contexts"),
    [(BOTH, NO_CONTEXT), pytest.param(GATES, cv.Uniform(1, -1, 2), marks=pytest.mark.thorough)],
)
def test_the_map_reaches_every_part_and_is_exact(constraint, contexts, tmp_path):
    map_ = make_map("auto", constraint, contexts, splines=False)
    assert kind_of(map_) == "union"
    assert map_.certified
    x = contexts.sample(jax.random.key(0), 200)
    latents = jax.random.normal(jax.random.key(1), (200, constraint.action_dim))
    actions, log_dets = jax.jit(jax.vmap(map_.forward))(latents, x)
    back, back_log_dets = jax.jit(jax.vmap(map_.inverse))(actions, x)
    jacobian = jax.jit(jax.vmap(jax.jacfwd(lambda z, x: map_.forward(z, x)[0])))(latents, x)
    assert np.all(constraint.contains(x, actions))
    np.testing.assert_allclose(back, latents, atol=5e-3)
    np.testing.assert_allclose(log_dets + back_log_dets, 0, atol=1e-2)
    np.testing.assert_allclose(log_dets, np.linalg.slogdet(np.asarray(jacobian, float))[1], atol=2e-3)
    quality = cv.measure(map_, contexts, latents=20_000, context_count=32)
    assert quality.infeasible == 0
    assert quality.covered > 0.99
    assert quality.recall > 0.97
    assert quality.kl < 0.15
    cv.save_map(map_, tmp_path)
    loaded = cv.load_map(tmp_path, constraint=constraint if constraint is GATES else None)
    np.testing.assert_array_equal(jax.jit(jax.vmap(loaded.forward))(latents, x)[0], actions)


def test_overlapping_parts_have_no_union_map():
    overlapping = cv.Union(cv.Ball(2, 0.5), cv.Box(2, 0.0, 0.4))
    with pytest.raises(ArgumentError, match=r"disjoint parts .* parts \(0, 1\) overlap"):
        make_map("union", overlapping, NO_CONTEXT)
    assert not make_map("auto", overlapping, NO_CONTEXT, width=4).certified


def test_pieces_are_counted_and_warned_of():
    split = cv.Constraint(two_balls, 2)
    assert count_pieces(split, NO_CONTEXT)[0] == 2
    with pytest.warns(DisconnectedSetWarning, match=r"seems to be in 2 pieces .*cv\.Union"):
        warn_if_disconnected(split, NO_CONTEXT)
    ring = cv.Constraint(lambda x, a: jnp.stack([a @ a / 0.81 - 1, 1 - a @ a / 0.7]), 2)
    assert count_pieces(ring, NO_CONTEXT)[0] == 1


def test_a_union_survives_the_trip_through_json():
    assert rebuild(json.loads(json.dumps(describe(BOTH)))) == BOTH


def test_bad_parts_are_named():
    for parts in [(), (LEFT, cv.Ball(3, 0.5)), (cv.MaxPower(2, 1.0), cv.HalfSpaces(2, 2))]:
        with pytest.raises(ArgumentError, match=r"^`parts`: expected "):
            cv.Union(*parts)
