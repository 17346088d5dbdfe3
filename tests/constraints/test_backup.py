"""The region of a learned feedback law: it is invariant, it is not small, and limits in it do not contradict."""

import json

import numpy as np
import pytest

import cvflows as cv
from cvflows.constraints.backup import admissible, learn_backup
from cvflows.constraints.feedback import Law, feedback, fit_dynamics
from cvflows.constraints.spec import describe, fingerprint, is_same, rebuild
from cvflows.errors import UnenforceableLimitError

A = np.array([[1.0, 0.1, 0.0, 0.0], [0.0, 1.0, -0.02, 0.0], [0.0, 0.0, 1.0, 0.1], [0.0, 0.0, 0.4, 1.0]])
B = np.array([[0.0], [0.1], [0.0], [-0.15]])
LIMITS = cv.Ranges({0: (-0.7, 0.7), 2: (-0.12, 0.12)})


def cart_pole(n, noise=0.0, seed=0):
    """A linear cart with a pole that falls, and a fifth entry that nothing depends on."""
    rng = np.random.default_rng(seed)
    before = rng.uniform(-1, 1, (n, 5)) * [0.7, 1.0, 0.12, 0.5, 3.0]
    actions = rng.uniform(-1, 1, (n, 1))
    after = np.concatenate([before[:, :4] @ A.T + actions @ B.T, rng.normal(size=(n, 1))], axis=1)
    after[:, :4] += noise * rng.uniform(-1, 1, (n, 4))
    return cv.Transitions(before, actions, after)


@pytest.fixture(scope="module")
def learned():
    return learn_backup(cart_pole(3000, noise=2e-4), LIMITS, family=None, alpha=0.005, seed=0)


def test_dynamics_are_found_for_the_entries_that_matter():
    dynamics = fit_dynamics(cart_pole(500), np.array([0, 2]))
    np.testing.assert_array_equal(dynamics.entries, [0, 1, 2, 3])
    unit = np.diag(dynamics.scale)
    np.testing.assert_allclose(unit @ dynamics.A @ np.linalg.inv(unit), A, atol=1e-5)
    np.testing.assert_allclose(unit @ dynamics.B, B, atol=1e-5)


def test_the_law_is_the_optimal_one():
    """Against the closed form of one state: p = 1 + a²p·r/(r + b²p), K = abp/(r + b²p)."""
    rng = np.random.default_rng(0)
    before, actions = rng.normal(size=(4000, 1)), rng.uniform(-1, 1, (4000, 1))
    dynamics = fit_dynamics(cv.Transitions(before, actions, 1.2 * before + 0.5 * actions), np.array([0]))
    law = feedback(dynamics, 2.0)
    b, p = float(dynamics.B[0, 0]), 1.0
    for _ in range(500):
        p = 1 + 1.2**2 * p * 2 / (2 + b * b * p)
    assert law.K[0, 0] == pytest.approx(1.2 * b * p / (2 + b * b * p), rel=1e-5)
    assert abs(law.closed[0, 0]) < 1


def test_region_of_a_decaying_state_is_all_of_its_limits():
    law = Law(np.zeros((1, 1)), np.zeros(1), np.zeros(1), np.array([[0.5]]))
    region = admissible(law, np.array([[1.0], [-1.0]]), np.ones(2), None)
    np.testing.assert_array_equal(region.holds(np.array([[0.99], [-0.99], [1.01]])), [True, True, False])
    errors = np.full((100, 1), 0.2)
    assert admissible(law, np.array([[1.0], [-1.0]]), np.ones(2), (errors, errors, None)) is not None
    errors = np.full((100, 1), 0.6)  # 0.6 + 0.3 + 0.15 + … > 1
    assert admissible(law, np.array([[1.0], [-1.0]]), np.ones(2), (errors, errors, None)) is None


def test_whatever_is_asked_for_the_state_stays_within_limits_that_contradict_each_other(learned):
    """Both limits alone ask for opposite actions; from within the region, the rows leave an action at every step."""
    rng = np.random.default_rng(1)
    rows = learned.constraint
    offset_of = rows.model.weights
    assert np.asarray(rows.cost(np.zeros(5))).max() < 0
    furthest = np.zeros(5)
    for push in (1.0, -1.0, None):
        state = np.zeros(5)
        for _ in range(400):
            c, model = np.asarray(rows.cost(state), float), rows.model
            z = np.append(1.0, (state - model.centre) / model.scale)
            b, w = offset_of[:, 0] @ z, offset_of[:, 1] @ z
            value, error = c + b, np.asarray(rows.error)
            high = np.min(np.where(w > 1e-9, -(value + error) / np.where(w > 1e-9, w, 1), 1.0), initial=1.0)
            low = np.max(np.where(w < -1e-9, -(value + error) / np.where(w < -1e-9, w, -1), -1.0), initial=-1.0)
            assert low <= high + 1e-6
            action = np.clip(rng.uniform(-1, 1) if push is None else push, low, high)
            noise = 2e-4 * rng.uniform(-1, 1, 4)
            state = np.append(A @ state[:4] + B[:, 0] * action + noise, rng.normal())
            assert (LIMITS(state) <= 0).all()
            furthest = np.maximum(furthest, np.abs(state))
    assert furthest[0] > 0.3  # the region is not small
    assert furthest[2] > 0.05


def test_tightening_covers_what_alpha_promises(learned):
    fresh = cart_pole(4000, noise=2e-4, seed=7)
    share = (learned.excess(fresh) <= np.asarray(learned.constraint.error)).all(axis=1).mean()
    assert share > 1 - learned.alpha - 4 * (learned.alpha / 4000) ** 0.5
    assert learned.alpha == 0.005


def test_the_first_rows_are_the_limits(learned):
    states = np.random.default_rng(0).normal(size=(20, 5))
    np.testing.assert_allclose(np.asarray(learned.constraint.cost(states))[:, :4], LIMITS(states), atol=1e-9)
    assert len(learned.signals) == 4


def test_survives_the_trip_through_json(learned):
    again = rebuild(json.loads(json.dumps(describe(learned.constraint))))
    assert is_same(again, fingerprint(learned.constraint))
    assert again.cost == learned.constraint.cost


def test_what_no_law_can_keep_is_refused():
    with pytest.raises(UnenforceableLimitError, match="no linear feedback law was found"):
        learn_backup(cart_pole(3000, noise=0.1), LIMITS, family=None, alpha=0.01, seed=0)
    with pytest.raises(ValueError, match="`cost`: expected `Ranges` or `Planes`"):
        learn_backup(cart_pole(100), lambda s: s[..., :1] - 1, family=None, alpha=None, seed=0)
    with pytest.raises(ValueError, match="`family`: expected affine"):
        cv.learn(cart_pole(100), LIMITS, "backup", family="network")
