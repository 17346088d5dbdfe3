"""Environments of one's own: small budgets are enough to learn something, and a budget that is not says so."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import cvflows as cv
from cvflows.cli import main
from cvflows.errors import NothingLearnedWarning
from cvflows.runs.config import make_config


class Follow(gymnasium.Env):
    """An action should equal the observation, scaled to ±0.5: reward -(a - s/2)². It never ends by itself."""

    def __init__(self, render_mode=None):
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._next(), {}

    def _next(self):
        self.state = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.state

    def step(self, action):
        reward = -float((action[0] - self.state[0] / 2) ** 2)
        self.steps += 1
        return self._next(), reward, False, self.steps >= 50, {}


@pytest.fixture(scope="module")
def follow():
    return cv.Task.from_env(Follow, cv.Box(1, -0.8, 0.8), name="follow")


@pytest.mark.parametrize("method", ["SAC", "TD3"])
def test_three_thousand_steps_beat_random_actions(follow, method):
    agent = cv.Agent(method, follow, hidden=(32, 32))
    rng, env = np.random.default_rng(1), Follow()  # not the seed of the environment: its draws would be the same
    env.reset(seed=0)
    chance = np.mean([env.step(rng.uniform(-0.8, 0.8, 1))[1] for _ in range(2000)])
    assert agent.learn(3000, progress=False).evaluate(10)["return"] / 50 > 0.1 * chance  # both negative


def test_random_steps_are_scaled_to_the_budget_of_a_run(follow):
    assert follow.family == "custom"
    starts = {steps: make_config(follow, "SAC", steps=steps).settings.learning_starts for steps in (5, 5000, 10**6)}
    assert starts == {5: 1, 5000: 500, 10**6: 1000}
    given = make_config(follow, "SAC", steps=5000, overrides={"learning_starts": 2000})
    assert given.settings.learning_starts == 2000
    assert make_config(cv.task("H+M"), "SAC", steps=50).settings.learning_starts == 5000  # the benchmark's


def test_a_call_that_learns_nothing_says_so(follow):
    agent = cv.Agent("SAC", follow, hidden=(16, 16), batch=16)
    with pytest.warns(NothingLearnedWarning, match="nothing is learned by step 100: the first 1,000 steps take random"):
        agent.learn(100, progress=False)
    with pytest.warns(NothingLearnedWarning, match="by step 1,000"):
        agent.learn(900, progress=False)
    agent.learn(10, progress=False)  # steps of an agent add up over calls


def test_train_says_when_a_run_only_takes_random_steps(tmp_path, capsys):
    quick = ["--steps", "400", "--final-episodes", "1", "--set", "hidden=16,16", "--out", str(tmp_path / "run")]
    assert main(["train", "R+L2", "--method", "SAC", *quick, "--json"]) == 0
    assert "warning: nothing is learned by step 400" in capsys.readouterr().err
