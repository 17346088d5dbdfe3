"""The ONNX file: the agent's actions for any number of observations, and whether each is allowed."""

import json
import shutil

import numpy as np
import pytest

from cvflows.constraints.judge import judge_of
from cvflows.controllers.checking import check
from cvflows.controllers.parity import perturbed, play_observations
from cvflows.errors import MissingExtraError
from exports import agent_of

CASES = [
    ("H+M", "PPO+CVFlow", "ray"),
    ("HC+O", "SAC+CVFlow", "ray"),
    ("W+O+S", "SAC+CVFlow", "ray"),
    ("R+L2", "SAC+CVFlow", "orb"),
    ("H+M", "SAC+CVFlow", "slice"),
    ("R+L2", "PPO+CVFlow", "gauge"),
    ("H+M", "ARAM", None),
]


def session_of(folder):
    runtime = pytest.importorskip("onnxruntime")
    return runtime.InferenceSession(str(folder / "controller.onnx"), providers=["CPUExecutionProvider"])


@pytest.mark.extras
@pytest.mark.parametrize(("task", "method", "kind"), CASES)
def test_decides_as_the_agent_does(task, method, kind, tmp_path):
    pytest.importorskip("onnx")
    agent = agent_of(task, method, kind)
    session = session_of(agent.export(tmp_path / "out", onnx=True))
    played = play_observations(agent._trainer, 40)
    seen = np.concatenate([played, next(perturbed(played, 40, seed=6))])
    actions, allowed = session.run(None, {"observation": seen})
    assert (actions.dtype, actions.shape, allowed.shape) == (np.float32, (80, agent.task.action_dim), (80,))
    expected = np.stack([agent._trainer.learner.decide_alone(one) for one in seen])
    np.testing.assert_allclose(actions, expected, atol=1e-5)
    rows = judge_of(agent.task.constraint).many(agent.task.context(seen.astype(float)), actions)
    np.testing.assert_array_equal(allowed, rows.max(axis=1) <= 1e-6)
    assert allowed.all() or kind is None
    alone = session.run(None, {"observation": seen[:1]})[0]
    np.testing.assert_allclose(alone[0], actions[0], atol=1e-6)


@pytest.mark.extras
def test_nothing_is_allowed_where_an_input_is_nan(tmp_path):
    pytest.importorskip("onnx")
    agent = agent_of("H+M", "PPO+CVFlow", "ray")
    session = session_of(agent.export(tmp_path / "out", onnx=True))
    _, allowed = session.run(None, {"observation": np.full((3, 11), np.nan, np.float32)})
    assert not allowed.any()


@pytest.mark.extras
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_check_compares_it_with_c_and_says_where_it_comes_from(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    folder = agent_of("R+L2", "SAC+CVFlow", "orb").export(tmp_path / "out", onnx=True)
    report = check(folder, 1000)
    assert report.problem is None
    assert report.onnx is not None
    assert report.onnx <= 1e-5
    told = {entry.key: entry.value for entry in onnx.load(folder / "controller.onnx").metadata_props}
    assert told["task"] == "R+L2"
    assert json.loads(told["constraint"])["set"] == "Ball"
    assert json.loads(told["low"]) == ["-inf"] * 9
    agent_of("R+L2", "SAC+CVFlow", "orb").export(folder)  # without ONNX: no file of an earlier export is left
    assert not (folder / "controller.onnx").exists()


def test_says_what_to_install(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'cvflows\[export\]'"):
        agent_of("R+L2", "SAC+CVFlow", "orb").export(tmp_path / "out", onnx=True)
    assert not (tmp_path / "out").exists()
