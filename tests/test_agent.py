"""Agents: they predict allowed actions, and what is saved acts the same."""

import shutil

import numpy as np
import pytest
from benchmarks.disk import FaultyDisk, KilledError

import cvflows as cv
from cvflows.errors import ArgumentError
from small import QUICK

pytestmark = pytest.mark.usefixtures("compiled_once")

OBSERVATION = np.array([0.3, 0.1, 0.9], np.float32)


def test_predicts_allowed_actions_for_one_or_many(ball, ball_map):
    agent = cv.Agent("SAC+CVFlow", ball, map_=cv.load_map(ball_map, ball.constraint), **QUICK)
    observation = np.array([0.85, 0.0, 0.9], np.float32)
    action, state = agent.predict(observation)
    assert (action.shape, state) == ((1,), None)
    many, _ = agent.predict(np.stack([observation] * 5), deterministic=False)
    assert many.shape == (5, 1)
    assert np.asarray(ball.constraint.contains(np.stack([observation] * 5), many)).all()
    for wrong in (np.zeros(4), np.full(3, np.nan), np.zeros((2, 2, 3))):
        with pytest.raises(ValueError, match="`observation`"):
            agent.predict(wrong)


def test_saved_agents_act_the_same(ball, ball_map, tmp_path):
    agent = cv.Agent("SAC+CVFlow", ball, seed=2, map_=cv.load_map(ball_map, ball.constraint), **QUICK).learn(
        400, progress=False
    )
    agent.save(tmp_path / "run")
    again = cv.Agent.load(tmp_path / "run", ball)
    observation = np.array([0.2, 0.1, 0.9], np.float32)
    np.testing.assert_array_equal(agent.predict(observation)[0], again.predict(observation)[0])
    again.learn(100, progress=False)
    assert again.config == agent.config


def test_saving_over_an_earlier_save_leaves_one_of_them_whole(ball, tmp_path):
    agent = cv.Agent("DDPG", ball, **QUICK).learn(250, progress=False)
    agent.save(tmp_path / "run")
    first, _ = agent.predict(OBSERVATION)
    agent.learn(250, progress=False)
    second, _ = agent.predict(OBSERVATION)
    assert not np.array_equal(first, second)
    with FaultyDisk().installed() as disk:
        shutil.copytree(tmp_path / "run", tmp_path / "counted")
        agent.save(tmp_path / "counted")
    found = []
    for at in range(len(disk.calls)):
        folder = shutil.copytree(tmp_path / "run", tmp_path / "broken")
        with FaultyDisk(at, "torn").installed(), pytest.raises(KilledError):
            agent.save(folder)
        loaded = cv.Agent.load(folder, ball)
        found.append(loaded.predict(OBSERVATION)[0].tobytes())
        assert len(loaded.episodes) == (3 if found[-1] == first.tobytes() else 6)
        shutil.rmtree(folder)
    assert set(found) == {first.tobytes(), second.tobytes()}
    assert found == sorted(found, key=lambda one: one == second.tobytes())  # the old one, then the new one
    other = cv.Agent("DDPG", ball, seed=1, **QUICK)
    with pytest.raises(ArgumentError, match="holds another run"):
        other.save(tmp_path / "run")
