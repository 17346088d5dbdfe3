"""The hand-made worlds: Gymnasium's rules, their dynamics in closed form, pictures, and returns that are known."""

import itertools
import math

import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cvflows as cv
from cvflows.envs.ball import BallWorld
from cvflows.envs.bikes import Bikes
from cvflows.envs.pole import Pole
from cvflows.envs.quadrotor import Quadrotor
from cvflows.envs.reacher import Reacher
from cvflows.envs.rendering import PACKAGES, follow, picture
from cvflows.envs.spaceship import arena, corridor
from cvflows.envs.worlds import ARRIVED, LEFT, TIME_UP
from pilots import reach

WORLDS = {
    "ball 1-D": BallWorld,
    "ball 3-D": lambda **k: BallWorld(3, **k),
    "ball 5-D": lambda **k: BallWorld(5, **k),
    "corridor": corridor,
    "arena": arena,
    "pole": Pole,
    "quadrotor": Quadrotor,
    "bikes": Bikes,
    "reacher": Reacher,
}
each_world = pytest.mark.parametrize("name", WORLDS)


@each_world
@pytest.mark.filterwarnings("ignore:.*(infinity|precision|not within|spec).*")
def test_follows_the_rules_of_gymnasium(name):
    check_env(WORLDS[name](), skip_render_check=True)


@each_world
def test_same_seed_same_trajectory(name):
    def trajectory(seed):
        env = WORLDS[name]()
        rng = np.random.default_rng(1)
        seen = [np.append(env.reset(seed=seed)[0], 0.0)]
        for _ in range(60):
            observation, reward, terminated, truncated, _ = env.step(rng.uniform(-1, 1, env.action_space.shape))
            seen.append(np.append(observation, reward))
            if terminated or truncated:
                seen.append(np.append(env.reset()[0], 0.0))
        return np.array(seen)

    np.testing.assert_array_equal(trajectory(3), trajectory(3))
    assert not np.array_equal(trajectory(3), trajectory(4))


@each_world
def test_leaves_the_action_alone_and_refuses_nonsense(name):
    env = WORLDS[name]()
    env.reset(seed=0)
    action = np.full(env.action_space.shape, 0.5, np.float32)
    env.step(action)
    np.testing.assert_array_equal(action, 0.5)
    with pytest.raises(ValueError, match="`action`: expected finite numbers"):
        env.step(np.full(env.action_space.shape, np.nan))
    with pytest.raises(ValueError, match="`action`: expected"):
        env.step(np.zeros(env.action_space.shape[0] + 1))


@each_world
def test_can_be_looked_at(name):
    env = WORLDS[name](render_mode="rgb_array")
    env.reset(seed=0)
    frame, missing = picture(env)
    if frame is None:
        assert name == "reacher"
        assert PACKAGES in missing
        return
    assert frame.dtype == np.uint8
    assert frame.shape == (320, 320, 3)
    assert len(np.unique(frame.reshape(-1, 3), axis=0)) > 5
    env.step(np.ones(env.action_space.shape))
    assert (env.render() != frame).any()


def test_the_camera_follows_a_robot():
    env = cv.task("W+M").make_env(render_mode="rgb_array")
    assert follow(env)
    env.reset(seed=0)
    robot, shares = env.unwrapped, []
    for place in (0.0, 40.0):
        robot.set_state(np.concatenate([[place], robot.data.qpos[1:]]), robot.data.qvel)
        frame, missing = picture(env)
        if frame is None:
            assert PACKAGES in missing
            return
        red, green, blue = (frame[..., channel].astype(int) for channel in range(3))
        shares.append(((red > green + 20) & (green > blue)).mean())  # its legs are brown, and nothing else is
    assert shares[0] > 0.001
    assert shares[1] > shares[0] / 2
    assert not follow(BallWorld())


def test_ball_coasts_and_its_target_jumps_before_the_reward():
    env = BallWorld(2, noise=0.0)
    observation, _ = env.reset(seed=0)
    targets = [observation[4:]]
    rng = np.random.default_rng(0)
    for _ in range(12):
        before, action = observation[:2], rng.uniform(-0.1, 0.1, 2)
        observation, reward, *_ = env.step(action)
        x, v = before.astype(float), action.copy()
        for _ in range(4):
            x, v = x + 0.1 * v, 0.95 * v
        np.testing.assert_allclose(observation[:4], [*x, *v], atol=1e-6)
        assert reward == pytest.approx(max(1 - 10 * np.sum((x - observation[4:]) ** 2), 0), abs=1e-5)
        targets.append(observation[4:])
    jumps = [not np.array_equal(a, b) for a, b in itertools.pairwise(targets)]
    assert jumps == [(step % 6) == 0 for step in range(1, 13)]


def test_ball_lasts_76_actions_or_until_it_leaves():
    env = BallWorld(1)
    env.reset(seed=0)
    steps = [env.step(np.zeros(1))[2:] for _ in range(76)]
    assert [truncated for _, truncated, _ in steps] == [False] * 75 + [True]
    assert steps[-1][2]["ended"] == TIME_UP
    env.reset(seed=0)
    env.step(np.ones(1))
    _, _, terminated, truncated, info = env.step(np.ones(1))
    assert (terminated, truncated, info["ended"]) == (True, False, LEFT)


@pytest.mark.parametrize(("n", "length"), [(1, 8.5), (3, 3.9)])
def test_random_balls_leave_as_soon_as_reported(n, length):
    env, rng = BallWorld(n), np.random.default_rng(0)
    lengths = []
    for seed in range(400):
        env.reset(seed=seed)
        steps, done = 0, False
        while not done:
            _, _, terminated, truncated, _ = env.step(rng.uniform(-1, 1, n))
            steps, done = steps + 1, terminated or truncated
        lengths.append(steps)
    assert np.mean(lengths) == pytest.approx(length, abs=0.6)


def test_ship_obeys_its_equations_and_walls():
    env = corridor()
    observation, _ = env.reset(seed=1)
    action = np.array([0.3, -0.8])
    after, reward, *_ = env.step(action)
    v = observation[2:] + 0.1 * action
    np.testing.assert_allclose(after, [*(observation[:2] + 0.1 * v), *(0.95 * v)], atol=1e-6)
    assert reward == 0
    done = False
    while not done:
        after, reward, done, _, info = env.step(np.array([1.0, 0.0]))
    assert (reward, info["ended"]) == (0.0, LEFT)
    assert after[0] > 1


def test_ship_that_flies_over_its_target_has_reached_it():
    env = arena(start_low=(0.5, 0.8), start_high=(0.5, 0.8), radius=0.02, tick=1.0)
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(np.array([0.49, 0.0]))
    assert (reward, terminated, info["ended"]) == (1000.0, True, ARRIVED)


@pytest.mark.parametrize(("make", "steps"), [(corridor, 151), (arena, 451)])
def test_ships_run_out_of_time(make, steps):
    env = make()
    env.reset(seed=0)
    endings = [env.step(np.zeros(2))[3] for _ in range(steps)]
    assert endings == [False] * (steps - 1) + [True]


def test_pole_obeys_its_equation():
    env = Pole()
    (angle, speed, _), _ = env.reset(seed=2)
    for command in (1.0, -0.5, 0.2):
        speed += 0.05 * (2 * math.sin(angle) + 4 * command - 0.5 * abs(speed) * speed)
        angle += 0.05 * speed
        observation, *_ = env.step(np.array([command]))
        np.testing.assert_allclose(observation[:2], [angle, speed], atol=1e-5)


def test_bikes_are_neither_made_nor_lost_and_following_demand_pays():
    def day(policy):
        env, total = Bikes(), 0.0
        observation, _ = env.reset(seed=5)
        for _ in range(24):
            observation, reward, _, truncated, info = env.step(policy(observation))
            assert observation[:5].sum() * 40 == pytest.approx(150, abs=1e-2)
            assert info["served"] <= info["asked"]
            total += reward
        assert truncated
        return total

    task = cv.task("BSS5z")

    def follow(observation):
        return np.asarray(task.constraint.project(None, 2.4 * observation[5:10] - 1))

    assert day(follow) > day(lambda observation: np.full(5, 0.5)) + 0.5
    assert Bikes().share_total == 2.5
    assert Bikes(3, 90, least=10).share_total == 1.0


def test_reacher_has_the_masses_it_should():
    env = Reacher()
    env.reset(seed=0)
    env.set_state(np.zeros(2), np.zeros(2))
    matrix = np.zeros((2, 2))
    mujoco.mj_fullM(env.model, env.data, matrix)
    np.testing.assert_allclose(matrix, [[1.153e-3, 4.03e-4], [4.03e-4, 1.79e-4]], rtol=0.01)


def test_reacher_pays_for_progress_and_nothing_else():
    env = Reacher(power=0.0, torque=0.0, stop=0.0)
    observation, _ = env.reset(seed=3)
    start = np.linalg.norm(observation[2:4])
    total, rng = 0.0, np.random.default_rng(0)
    for step in range(150):
        observation, reward, terminated, truncated, _ = env.step(rng.uniform(-1, 1, 2))
        total += reward
        assert (terminated, truncated) == (False, step == 149)
    assert total == pytest.approx(100 * (start - np.linalg.norm(observation[2:4])), abs=1e-3)


def returns(policy, episodes):
    env = Reacher()
    rng = np.random.default_rng(0)
    totals = []
    for seed in range(episodes):
        observation, _ = env.reset(seed=seed)
        total = 0.0
        for _ in range(150):
            observation, reward, *_ = env.step(policy(observation, rng))
            total += reward
        totals.append(total)
    return np.mean(totals)


def test_reacher_returns_what_the_benchmark_reports():
    """Random actions about -16; a controller within R+L2 about 20, where 21.2 is the most that is possible."""
    assert returns(lambda observation, rng: rng.uniform(-1, 1, 2), 60) == pytest.approx(-16, abs=2.5)
    assert 18.5 < returns(lambda observation, rng: reach(observation), 150) < 21.9
