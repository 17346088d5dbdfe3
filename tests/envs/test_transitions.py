"""Transitions of random actions: as many as were asked for, and independent of the environment's own draws."""

import gymnasium
import numpy as np
import pytest

import cvflows as cv
from cvflows.envs.transitions import collect


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ((np.zeros((4, 2)), np.zeros((3, 1)), np.zeros((4, 2))), "`actions`: expected a table of 4 rows"),
        ((np.zeros((4, 2)), np.zeros((4, 1)), np.full((4, 2), np.nan)), "`after`: expected finite numbers"),
        ((np.zeros((4, 2)), np.zeros((4, 1)), np.zeros((4, 3))), r"`after`: expected shape \(4, 2\)"),
    ],
)
def test_refuses_bad_transitions(tables, message):
    with pytest.raises(ValueError, match=message):
        cv.Transitions(*tables)


def test_collects_what_was_asked_for():
    env = cv.task("Ball1D").make_env()
    ticks = []
    found = collect(env, episodes=50, seed=1, tick=ticks.append)
    assert found.before.shape == found.after.shape == (len(found), 3)
    assert ticks == list(range(256, len(found) + 1, 256))
    np.testing.assert_array_equal(found.actions, collect(env, episodes=50, seed=1).actions)
    assert len(collect(env, steps=100)) == 100


def test_an_environment_that_reuses_its_array_gives_the_same_transitions():
    class Reusing(gymnasium.ObservationWrapper):
        def observation(self, observation):
            self.shared = getattr(self, "shared", observation.copy())
            self.shared[:] = observation
            return self.shared

    plain, reusing = (collect(make(cv.task("Ball1D").make_env()), steps=100) for make in (lambda env: env, Reusing))
    np.testing.assert_array_equal(plain.before, reusing.before)
    np.testing.assert_array_equal(plain.after, reusing.after)


def test_random_actions_do_not_repeat_what_the_environment_draws():
    """Gymnasium seeds environments as NumPy seeds generators: one seed for both makes actions follow the state."""

    class Noisy(gymnasium.Env):
        action_space = observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.np_random.uniform(-1, 1, 1).astype(np.float32), {}

        def step(self, action):
            return self.np_random.uniform(-1, 1, 1).astype(np.float32), 0.0, False, False, {}

    for seed in range(3):
        found = collect(Noisy(), steps=500, seed=seed)
        for states in (found.before, found.after):
            assert abs(np.corrcoef(states[:, 0], found.actions[:, 0])[0, 1]) < 0.2
