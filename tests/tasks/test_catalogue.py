"""The catalogue: every task is an environment with a constraint."""

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces

import cvflows as cv
from cases import ACTION_TASKS
from cvflows.agents.methods import METHODS
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


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.share is not None])
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


@pytest.mark.parametrize(
    ("name", "indices"),
    [
        ("R+L2", []),
        ("R+D", []),
        ("H+D", []),
        ("R+N", []),
        ("H+M", [8, 9, 10]),
        ("H+O+S", [8, 9, 10, 2, 3, 4]),
        ("W+M", [11, 12, 13, 14, 15, 16]),
        ("W+O+S", [11, 12, 13, 14, 15, 16, 2, 3, 4, 5, 6, 7]),
        ("HC+O", [11, 12, 13, 14, 15, 16]),
        ("HC+MA", [11, 14, 2, 3, 4, 5, 6, 7]),
        ("R+O03", [6, 8]),
        ("R+O10", [6, 8]),
        ("R+O30", [6, 8]),
        ("R+M", [6, 8]),
    ],
)
def test_context_indices(name, indices):
    task = ACTION_TASKS[name]
    observation = np.arange(task.observation_dim, dtype=np.float32)
    np.testing.assert_array_equal(task.context(observation), indices)
    assert task.constraint.context_dim == len(indices) == task.contexts.size
    assert task.constraint.action_dim == task.action_dim
    assert task.constraint.convex == task.convex


def test_tip_reads_the_angle_itself():
    observation = np.zeros(9)
    observation[7] = 0.4  # θ₂/3
    np.testing.assert_allclose(cv.task("r+t").context(observation), [1.2])
