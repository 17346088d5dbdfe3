"""How wrong a signal model is: by the largest error, or by a bound for a share 1 - α of the steps."""

import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv


def ship(n, seed=0, noise=0.0, wide=1.0):
    """A mass with thrust: entries are its place and its speed."""
    rng = np.random.default_rng(seed)
    before, actions = rng.uniform(-wide, wide, (n, 2)), rng.uniform(-1, 1, (n, 1))
    speed = before[:, 1] + 0.1 * actions[:, 0] + noise * rng.normal(size=n)
    return cv.Transitions(before, actions, np.stack([before[:, 0] + 0.1 * speed, speed], axis=1))


LIMITS = cv.Ranges({0: (-0.9, 0.9)})


def test_alpha_tightens_by_less_than_the_largest_error_and_still_covers():
    whole = cv.learn(ship(4000, noise=0.05), LIMITS)
    some = cv.learn(ship(4000, noise=0.05), LIMITS, alpha=0.05)
    assert max(some.constraint.error) < 0.8 * max(whole.constraint.error)
    fresh = ship(20_000, seed=5, noise=0.05)
    share = (some.excess(fresh) <= np.asarray(some.constraint.error)).all(axis=1).mean()
    assert 0.93 < share < 0.97
    assert (whole.alpha, some.alpha) == (None, 0.05)


def test_alpha_counts_steps_from_safe_states_only():
    data = ship(4000, wide=1.5)
    after = data.after.copy()
    after[np.abs(data.before[:, 0]) > 0.9, 0] += 5.0  # what happens beyond the limits matters to no guard
    learned = cv.learn(cv.Transitions(data.before, data.actions, after), LIMITS, alpha=0.01)
    assert max(learned.constraint.error) < 1e-4
    assert learned.transitions < 4000
    with pytest.raises(ValueError, match="some that begin in a safe state"):
        cv.learn(data, cv.Ranges({0: (7.0, 9.0)}), alpha=0.01)


def test_cbf_uses_up_at_most_a_share_of_the_distance():
    constraint = cv.learn(ship(4000), LIMITS, "cbf").constraint
    kappa = 1 - constraint.persistence[1]
    assert kappa == pytest.approx((0.01 / 1.8) ** 0.5, rel=0.05)  # S = 0.01 at the largest distance, φ = 1
    offset, normal = constraint.offsets_and_normals(jnp.asarray([0.4, 0.0]))
    room = 0.5 * kappa / 0.01
    assert float(-offset[1] / normal[1, 0]) == pytest.approx(min(room, 9.0), rel=0.05)


@pytest.mark.parametrize("push", [1.0, -1.0])
def test_cbf_stops_a_mass_before_the_wall(push):
    constraint = cv.learn(ship(4000), LIMITS, "cbf").constraint
    x, v = 0.0, 0.0
    for _ in range(300):
        state = np.array([x, v], np.float32)
        action = float(np.asarray(constraint.project(state, np.array([push], np.float32)))[0])
        v += 0.1 * action
        x += 0.1 * v
        assert abs(x) <= 0.9 + 1e-6
    assert abs(x) > 0.8
