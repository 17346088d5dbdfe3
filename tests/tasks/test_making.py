"""Anybody's environment becomes a task."""

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces

import cvflows as cv
from cvflows.errors import FaultyEnvironmentError

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|Overriding).*")


class Thermostat(gymnasium.Env):
    """Actions in [0,5]², observation (1, 2, 3, 4) plus the last action."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, render_mode=None, spoil=False):
        self.action_space = spaces.Box(0.0, 5.0, (2,), np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.spoil = spoil

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([1.0, 2.0, 3.0, 4.0], np.float32), {}

    def step(self, action):
        assert self.action_space.contains(np.asarray(action, np.float32))
        self.last = action
        observation = np.array([*action, 3.0, 4.0], np.float32)
        return observation * (np.nan if self.spoil else 1), 0.0, False, False, {}


def test_task_from_an_environment_of_your_own():
    task = cv.Task.from_env(Thermostat, cv.Orthoplex(2, 3.0), context=[2, 3], name="heating")
    env = task.make_env(guard=True)
    env.reset(seed=0)
    *_, info = env.step(np.ones(2))
    assert info["projected"]
    np.testing.assert_allclose(env.unwrapped.last, (info["executed"] + 1) * 2.5, atol=1e-5)
    assert task.contexts.size == 2
    assert np.all(np.asarray(task.contexts.sample(jax.random.key(0), 5)) == [3.0, 4.0])
    given = cv.Task.from_env(Thermostat, cv.Orthoplex(2, 3.0), lambda o: o[..., 2:], contexts=cv.Uniform(2, 0, 1))
    np.testing.assert_array_equal(given.context(np.arange(8.0).reshape(2, 4)), [[2, 3], [6, 7]])
    assert given.contexts == cv.Uniform(2, 0, 1)


def test_task_from_a_registered_environment():
    made = gymnasium.make("Pendulum-v1")
    for env in (made, "Pendulum-v1"):
        task = cv.Task.from_env(env, cv.Ball(1, 0.5))
        assert task.environment == "Pendulum-v1"
        first, second = task.make_env(guard=True), task.make_env(guard=True)
        assert first.unwrapped is not second.unwrapped
        first.reset(seed=0)
        assert first.step(np.ones(1))[-1]["executed"] == pytest.approx(0.5, abs=1e-4)


def test_task_from_limits_on_states():
    task = cv.Task.from_env(Thermostat, limits=cv.Ranges({0: (-np.inf, 4.0), 1: (0.0, 4.0)}))
    assert task.metric == "episodes"
    learned = task.learn(episodes=None, steps=400, self_test=1)
    env = learned.task.make_env(guard=True)
    env.reset(seed=0)
    env.step(np.zeros(2))
    observation, *_ = env.step(np.ones(2))
    np.testing.assert_allclose(observation[:2], 4.0, atol=0.05)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("CartPole-v1", cv.Ball(2, 0.5)), {}, "expected a Box action space"),
        ((Thermostat, cv.Ball(3, 0.5)), {}, "expected action_dim 2"),
        ((Thermostat, cv.Orthoplex(2, 1.0), [0, 4]), {}, r"indices in \[0, 4\), got 4"),
        ((Thermostat, cv.Orthoplex(2, 1.0), [0, 1]), {"contexts": cv.Uniform(3, 0, 1)}, "expected 2 entries"),
        ((Thermostat,), {"limits": cv.Ranges({4: (0, 1)})}, r"`limits`: expected indices in \[0, 4\)"),
        ((Thermostat,), {}, "either this or `limits`, got neither"),
        ((Thermostat(), cv.Ball(2, 0.5)), {}, "without a spec"),
        ((3, cv.Ball(2, 0.5)), {}, "a Gymnasium environment, its id, or a function"),
    ],
)
def test_refuses_what_does_not_fit(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        cv.Task.from_env(*arguments, **options)


def test_an_environment_that_returns_nan_is_named():
    task = cv.Task.from_env(lambda: Thermostat(spoil=True), limits=cv.Ranges({0: (0.0, 1.0)}))
    with pytest.raises(FaultyEnvironmentError, match=r"observation entries \[0, 1, 2, 3\]"):
        task.learn()


def test_only_states_need_learning():
    with pytest.raises(ValueError, match="expected limits on states"):
        cv.task("R+L2").learn()
    with pytest.raises(LookupError, match="did you mean 'stopping'"):
        cv.task("Ball1D").learn("stoping", episodes=5)
