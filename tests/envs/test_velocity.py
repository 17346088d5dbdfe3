"""Robots with their speed observed: the numbers and the cost are those of Safety-Gymnasium."""

import gymnasium
import numpy as np
import pytest

import cvflows as cv
from cvflows.envs.velocity import ROBOTS, running
from cvflows.envs.watching import Watch
from cvflows.envs.worlds import LEFT

pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|Overriding).*")
LIMITS = {"Hopper": 0.7402, "Walker2d": 2.3415, "HalfCheetah": 3.2096, "Swimmer": 0.2282, "Ant": 2.6222}


@pytest.mark.parametrize("robot", ROBOTS)
def test_speed_is_the_way_of_a_step_over_its_time(robot):
    env = running(robot)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    inner = env.unwrapped
    place = inner.data.body("torso").xpos if robot == "Ant" else inner.data.qpos  # as Safety-Gymnasium measures it
    for _ in range(5):
        before = place[:2].copy()
        observation, *_ = env.step(rng.uniform(-1, 1, env.action_space.shape).astype(np.float32))
        way = (place[:2] - before) / inner.dt
        speed = np.hypot(*way) if robot == "Ant" else way[0]
        assert observation[-1] == pytest.approx(speed, abs=1e-9)
    assert observation.shape == env.observation_space.shape
    task = cv.task(f"{robot}-Velocity")
    assert task.limits.entries == ((task.observation_dim - 1, -np.inf, LIMITS[robot]),)


class Counting(gymnasium.Env):
    """Observes how many steps were taken, six in all."""

    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(1, self.steps, np.float32), 0.0, False, self.steps == 6, {}


@pytest.mark.parametrize(("limit", "cost"), [(4.0, 2), (9.0, 0)])
def test_steps_outside_are_counted(limit, cost):
    env = Watch(Counting(), cv.Ranges({0: (-np.inf, limit)}))
    for _ in range(2):
        env.reset()
        infos = [env.step(np.zeros(1))[4] for _ in range(6)]
        assert sum(info["limit_cost"] for info in infos) == infos[-1]["episode_cost"] == cost
        assert (infos[-1].get("ended") == LEFT) == (cost > 0)


def lengths(ending, episodes):
    """Steps of seeded episodes of which steps 5 and 6 are outside."""
    env = Watch(Counting(), cv.Ranges({0: (-np.inf, 4.0)}), ending)
    found = []
    for seed in range(episodes):
        env.reset(seed=seed)
        done = False
        while not done:
            _, _, terminated, truncated, info = env.step(np.zeros(1))
            done = terminated or truncated
        assert terminated or info["episode_cost"] == 2
        assert info["episode_cost"] == env.env.steps - 4
        found.append(env.env.steps)
    return found


def test_steps_outside_end_episodes_as_often_as_told():
    """And at the same steps for the same seeds, so that a run can be resumed."""
    assert lengths(1.0, 20) == [5] * 20
    assert lengths(0.0, 20) == [6] * 20
    some = lengths(0.3, 400)
    assert some == lengths(0.3, 400)
    assert 0.3 - 0.08 < np.mean(np.array(some) == 5) < 0.3 + 0.08
