"""The catalogue: every task is an environment with a constraint, and anybody's environment becomes a task."""

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces

import cvflows as cv
from cases import ACTION_TASKS
from cvflows.agents.methods import METHODS
from cvflows.errors import FaultyEnvironmentError
from cvflows.tasks.catalogue import TASKS
from cvflows.tasks.registration import gymnasium_id

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|Overriding).*")


@pytest.mark.parametrize("name", TASKS)
def test_environment_and_constraint_fit(name):
    task = TASKS[name]
    env = gymnasium.make(gymnasium_id(name), guard=False)
    assert env.get_wrapper_attr("task") is task
    assert env.observation_space.shape == (task.observation_dim,)
    assert env.action_space == spaces.Box(-1.0, 1.0, (task.action_dim,), np.float32)
    observation, _ = env.reset(seed=0)
    assert np.isfinite(task.context(observation)).all()
    settings = [METHODS[rule].configure({}, "paper", name, task.family) for rule in ("SAC", "TD3")]
    assert {one.discount for one in settings} <= {0.98, 0.99}
    assert task.metric == ("actions" if name in ACTION_TASKS else "episodes")
    env.close()


@pytest.mark.parametrize("name", ACTION_TASKS)
def test_guarded_environment_executes_allowed_actions_only(name):
    task = TASKS[name]
    env = gymnasium.make(gymnasium_id(name))
    assert env.get_wrapper_attr("constraint") is task.constraint
    observation, _ = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(4):
        x = task.context(observation)
        observation, _, _, _, info = env.step(env.action_space.sample())
        assert bool(task.constraint.contains(x, info["executed"]))
    env.close()


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.thorough
def test_share_of_feasible_actions_is_what_the_table_says(name):
    task = TASKS[name] if name in ACTION_TASKS else TASKS[name].learn(episodes=300, self_test=0).task
    keys = jax.random.split(jax.random.key(1))
    x = task.contexts.sample(keys[0], 200_000)
    a = jax.random.uniform(keys[1], (len(x), task.action_dim), minval=-1.0, maxval=1.0)
    share = float(task.constraint.contains(x, a).mean())
    noise = 4 * (share * (1 - share) / len(x)) ** 0.5
    assert share == pytest.approx(task.share, rel=0.03, abs=noise + 1e-4)


def test_the_paper_settings():
    def paper(rule, family):
        return METHODS[rule].configure({}, "paper", "", family)

    assert (paper("SAC", "Reacher").tau, paper("TD3", "Reacher").batch) == (0.02, 100)
    assert paper("SAC", "world").learning_starts == 256
    assert (paper("NFW", "Reacher").frank_wolfe_rate, paper("NFW", "MuJoCo").frank_wolfe_rate) == (0.05, 0.01)
    with pytest.raises(LookupError, match="did you mean 'paper'"):
        METHODS["SAC"].configure({}, "papr")


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
