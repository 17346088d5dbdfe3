"""The doors for other people's agents: only allowed actions pass, and `info` says what happened."""

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import cvflows as cv
from cases import map_case
from cvflows.envs.ball import BallWorld
from cvflows.errors import EmptySetError, FaultyEnvironmentError

DISC = cv.Ball(2, 0.5)


class Recorder(gymnasium.Env):
    """Two actions; remembers what it was told; observation (speed, speed, 7)."""

    def __init__(self, low=-1, high=1, observation=None, cost=None, dtype=np.float32):
        self.action_space = spaces.Box(low, high, (2,), dtype)
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.observation = np.array([4.0, -4.0, 7.0], np.float32) if observation is None else observation
        self.told, self.cost = [], cost

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([2.0, -2.0, 7.0], np.float32), {}

    def step(self, action):
        self.told.append(action.copy())
        action *= 0  # an environment that writes to its argument must not reach ours
        return self.observation, 1.0, False, False, {} if self.cost is None else {"cost": self.cost}


def test_allowed_actions_pass_as_they_are():
    inner = Recorder()
    env = cv.FeasibleActions(inner, DISC)
    env.reset()
    action = np.array([0.3, -0.2], np.float32)
    *_, info = env.step(action)
    np.testing.assert_array_equal(action, np.float32([0.3, -0.2]))
    np.testing.assert_array_equal(inner.told[0], action)
    np.testing.assert_array_equal(info["executed"], action)
    assert (info["cv"], info["cost"], info["projected"], info["projection_distance"]) == (0.0, 0.0, False, 0.0)


def test_forbidden_actions_are_projected_and_counted():
    inner = Recorder(cost=2.0)
    env = cv.FeasibleActions(inner, DISC)
    env.reset()
    *_, info = env.step([3.0, 4.0])
    np.testing.assert_allclose(inner.told[0], [0.3, 0.4], atol=1e-4)
    assert bool(DISC.contains(None, inner.told[0]))
    assert info["projected"] is True
    assert info["cost"] == 3.0  # the environment's own, and ours
    assert info["cv"] == pytest.approx(float(DISC.violation(None, [3.0, 4.0])), rel=1e-5)
    assert info["projection_distance"] == pytest.approx(4.5, abs=1e-3)


def test_reads_the_context_of_the_observation_before():
    """|w|·|a| ≤ 1 at w = 2 after the reset, at w = 4 after the first step."""
    inner = Recorder()
    env = cv.FeasibleActions(inner, cv.Orthoplex(2, 1.0), context=[0, 1])
    env.reset()
    assert not env.step(np.array([0.5, 0.0]))[-1]["projected"]
    assert env.step(np.array([0.5, 0.0]))[-1]["projected"]
    np.testing.assert_allclose(inner.told[1], [0.25, 0.0], atol=1e-4)
    scaled = cv.FeasibleActions(Recorder(), cv.Orthoplex(2, 1.0), context=[(0, 0.1), (1, 0.1)])
    scaled.reset()
    assert not scaled.step(np.array([1.0, 1.0]))[-1]["projected"]
    function = cv.FeasibleActions(Recorder(), cv.Orthoplex(2, 1.0), context=lambda observation: 3 * observation[:2])
    function.reset()
    assert function.step(np.array([0.5, 0.0]))[-1]["projected"]


def test_a_margin_of_rounding_is_settled_by_the_strict_tolerance():
    env = cv.FeasibleActions(Recorder(), DISC)
    env.reset()
    assert not env.step(np.array([0.5, 0.0]))[-1]["projected"]
    assert env.step(np.array([0.50001, 0.0]))[-1]["projected"]


def test_rows_that_python_cannot_divide_are_left_to_jax():
    safe = cv.Constraint(
        lambda x, a: jnp.where(x[0] > 0, a[0] / x[0], 0.0) - 1, action_dim=2, context_dim=1, convex=True
    )
    env = cv.FeasibleActions(Recorder(observation=np.zeros(3, np.float32)), safe, context=[0])
    env.reset()
    env.step(np.zeros(2))
    assert not env.step(np.ones(2))[-1]["projected"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cv.FeasibleActions(gymnasium.make("CartPole-v1"), DISC), "expected a Box action space"),
        (lambda: cv.FeasibleActions(Recorder(-np.inf, np.inf), DISC), "expected a bounded action space"),
        (lambda: cv.FeasibleActions(Recorder(-2.0, 2.0), DISC), "RescaleAction"),
        (lambda: cv.FeasibleActions(Recorder(dtype=np.int32), DISC), "an action space of floating numbers"),
        (lambda: cv.FeasibleActions(Recorder(), cv.Ball(3, 0.5)), "expected action_dim 2"),
        (lambda: cv.FeasibleActions(Recorder(), cv.Orthoplex(2, 1.0), [0, 3]), r"indices in \[0, 3\), got 3"),
        (lambda: cv.FeasibleActions(Recorder(), cv.Orthoplex(2, 1.0), [0]), "expected 2 indices"),
        (lambda: cv.FeasibleActions(Recorder(), cv.Orthoplex(2, 1.0)), "indices of the 2 observation entries"),
    ],
)
def test_refuses_what_does_not_fit(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_refuses_bad_actions_and_environments():
    env = cv.FeasibleActions(Recorder(), DISC)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(2))
    env.reset()
    with pytest.raises(ValueError, match="`action`: expected finite numbers"):
        env.step([np.nan, 0.0])
    with pytest.raises(ValueError, match=r"`action`: expected shape \(2,\)"):
        env.step(np.zeros(3))
    broken = cv.FeasibleActions(Recorder(observation=np.full(3, np.nan)), cv.Orthoplex(2, 1.0), [0, 1])
    broken.reset()
    with pytest.raises(FaultyEnvironmentError, match=r"Recorder returned NaN or infinity in .* \[0, 1, 2"):
        broken.step(np.zeros(2))


class Returning(Recorder):
    """An environment whose steps return what it was made with."""

    def __init__(self, observation=None, reward=1.0):
        super().__init__(observation=observation)
        self.reward = reward

    def step(self, action):
        return self.observation, self.reward, False, False, {}


@pytest.mark.parametrize("reward", [np.nan, np.inf, -np.inf, None, "much"])
def test_rewards_that_are_no_numbers_name_the_environment(reward):
    env = cv.FeasibleActions(Returning(reward=reward), DISC)
    env.reset()
    with pytest.raises(FaultyEnvironmentError, match=r"Returning returned (the reward|a reward)"):
        env.step(np.zeros(2))


@pytest.mark.parametrize("observation", [np.zeros(2), np.zeros((3, 1)), "seen", None], ids=["2", "3x1", "text", "none"])
def test_observations_that_do_not_fit_name_the_environment(observation):
    env = cv.FeasibleActions(Returning(observation), cv.Orthoplex(2, 1.0), [0, 1])
    env.env.observation = observation
    env.reset()
    with pytest.raises(FaultyEnvironmentError, match="Returning returned an observation"):
        env.step(np.zeros(2))


def test_an_empty_set_stops_the_wrapper_or_is_told():
    """After the reset the two rows leave actions with a₁ = 0; after a step they contradict each other."""
    rows = cv.HalfSpaces(2, 2, lambda x: (jnp.array([x[0] - 2, x[0] - 2]), jnp.array([[1.0, 0.0], [-1.0, 0.0]])), 1)
    env = cv.FeasibleActions(Recorder(), rows, [0])
    env.reset()
    assert env.step(np.array([0.0, 0.5]))[-1]["outcome"] == cv.Outcome.EXACT
    with pytest.raises(EmptySetError, match="at context \\(4\\)"):
        env.step(np.array([0.0, 0.5]))
    told = cv.FeasibleActions(Recorder(), rows, [0], on_empty=[0.5, 0.0])
    told.reset()
    told.step(np.array([0.0, 0.5]))
    info = told.step(np.array([0.0, 0.5]))[-1]
    assert info["outcome"] == cv.Outcome.EMPTY
    assert info["executed_cv"] == pytest.approx(2.5 + 1.5)
    np.testing.assert_array_equal(info["executed"], np.float32([0.5, 0.0]))


@pytest.mark.parametrize("name", ["slice R+L2, uniform base", "box spline R+L2, uniform base"])
def test_latents_become_allowed_actions(name):
    map_ = map_case(name).map
    inner = Recorder()
    env = cv.LatentActions(inner, map_)
    assert env.action_space == spaces.Box(-1.0, 1.0, (2,), np.float32)
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(20):
        latent = rng.uniform(-4, 4, 2).astype(np.float32)
        *_, info = env.step(latent)
        assert bool(map_.constraint.contains(None, inner.told[-1]))
        if not info["projected"]:
            expected = map_.forward(jnp.clip(latent, -1, 1), jnp.zeros(0))[0]
            np.testing.assert_allclose(inner.told[-1], expected, atol=1e-5)


def test_many_environments_at_once():
    envs = gymnasium.make_vec("cvflows/R-L2-v0", num_envs=3, vectorization_mode="sync")
    envs.reset(seed=0)
    *_, infos = envs.step(np.ones((3, 2), np.float32))
    assert infos["projected"].all()
    np.testing.assert_allclose(np.linalg.norm(infos["executed"], axis=1), np.sqrt(0.05), rtol=1e-3)
    envs.close()


def test_latent_environments_at_once():
    map_ = map_case("shell R+D").map
    envs = gymnasium.make_vec(
        "cvflows/R-D-v0",
        num_envs=2,
        vectorization_mode="sync",
        wrappers=[lambda env: cv.LatentActions(env, map_)],
        guard=False,
    )
    envs.reset(seed=0)
    assert envs.single_action_space == spaces.Box(-3.0, 3.0, (2,), np.float32)
    *_, infos = envs.step(np.full((2, 2), 2.0, np.float32))
    assert not infos["projected"].any()
    assert (np.abs(np.linalg.norm(infos["executed"], axis=1) - np.sqrt(0.045)) <= 0.013).all()
    envs.close()


def test_guarding_a_world_costs_no_reward_where_nothing_is_forbidden():
    plain, guarded = BallWorld(1), cv.FeasibleActions(BallWorld(1), cv.Box(1))
    for env in (plain, guarded):
        env.reset(seed=0)
    for _ in range(10):
        assert plain.step(np.array([0.05]))[1] == pytest.approx(guarded.step(np.array([0.05]))[1], abs=1e-6)
