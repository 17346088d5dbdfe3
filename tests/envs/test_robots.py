"""The lean robots are Gymnasium's, to the last bit."""

import gymnasium
import numpy as np
import pytest

import cvflows as cv
from cvflows.envs.robots import LEAN, lean

TASK = {"Hopper-v5": "H+M", "Walker2d-v5": "W+M", "HalfCheetah-v5": "HC+O"}


def walk(env, actions):
    """Everything an environment says in some episodes."""
    said = [env.reset(seed=7)]
    for action in actions:
        said.append(env.step(action))
        if said[-1][2] or said[-1][3]:
            said.append(env.reset())
    return said


@pytest.mark.parametrize("name", LEAN)
@pytest.mark.parametrize("size", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_are_gymnasiums(name, size, dtype):
    theirs, ours = gymnasium.make(name), lean(name)
    actions = np.random.default_rng(1).uniform(-size, size, (1500, theirs.action_space.shape[0])).astype(dtype)
    said, wanted = walk(ours, actions), walk(theirs, actions)
    assert len(said) == len(wanted)
    for found, one in zip(said, wanted, strict=True):
        assert found[0].dtype == one[0].dtype
        np.testing.assert_array_equal(found[0], one[0])
        assert found[1:-1] == one[1:-1]
        assert found[-1] == one[-1]
        assert list(found[-1]) == list(one[-1])
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.spec.id == name


@pytest.mark.parametrize("name", LEAN)
def test_tasks_are_set_in_them(name):
    env = cv.task(TASK[name]).make_env()
    assert isinstance(env.unwrapped, LEAN[name])
    assert env.spec.id == name
    assert env.spec.max_episode_steps == 1000


def test_settings_are_passed_on():
    options = {"exclude_current_positions_from_observation": False, "terminate_when_unhealthy": False}
    theirs, ours = gymnasium.make("Walker2d-v5", **options), lean("Walker2d-v5", **options)
    actions = np.random.default_rng(2).uniform(-1, 1, (300, 6)).astype(np.float32)
    for found, one in zip(walk(ours, actions), walk(theirs, actions), strict=True):
        np.testing.assert_array_equal(found[0], one[0])
        assert found[1:] == one[1:]


def test_actions_of_another_size_are_refused():
    env = lean("Hopper-v5")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="Action dimension mismatch"):
        env.step(np.zeros(2))


def test_states_that_are_not_finite_are_gymnasiums_too():
    theirs, ours = gymnasium.make("Hopper-v5"), lean("Hopper-v5")
    for env in (theirs, ours):
        env.reset(seed=0)
        env.unwrapped.data.qvel[1] = 150.0
    action = np.zeros(3, np.float32)
    found, wanted = ours.step(action), theirs.step(action)
    np.testing.assert_array_equal(found[0], wanted[0])
    assert found[1:] == wanted[1:]
    assert found[2]
