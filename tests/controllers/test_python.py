"""`cv.Controller`: the same decisions without JAX, and no code from a file."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

import cvflows as cv
from cvflows.constraints.programs import OPERATIONS, FaultyProgramError, Program, Step, from_data
from cvflows.controllers.parity import perturbed, play_observations, read_parity
from cvflows.controllers.plan import FaultyPlanError, plan_from
from cvflows.controllers.status import Status, Used
from cvflows.errors import StoreError
from cvflows.files import serialise

WITHOUT_JAX = """
import sys, time
began = time.perf_counter()
import cvflows as cv
controller = cv.Controller.load(sys.argv[1])
seconds = time.perf_counter() - began
action, status, used = controller.act([0.0] * controller.observation_dim)
heavy = {"jax", "jaxlib", "equinox", "mujoco", "matplotlib", "onnx"} & set(sys.modules)
assert not heavy, heavy
assert status.name == "OK" and action.dtype.name == "float32", status
print(seconds)
"""


@pytest.fixture(scope="module")
def artefact(exported):
    return exported("R+L2", "SAC+CVFlow", "ray")[0]


def test_loads_without_jax(artefact):
    done = subprocess.run([sys.executable, "-c", WITHOUT_JAX, str(artefact)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0


@pytest.mark.parametrize(("task", "method", "kind"), [("HC+O", "SAC+CVFlow", "ray"), ("R+L2", "SAC+CVFlow", "orb")])
def test_decides_as_the_agent_does(task, method, kind, exported):
    folder, agent = exported(task, method, kind)
    controller, played = cv.Controller.load(folder), play_observations(agent._trainer, 40)
    for seen in (*played, *next(perturbed(played, 40, seed=4))):
        action, status, used = controller.act(seen)
        assert (status, used) == (Status.OK, Used.POLICY)
        np.testing.assert_allclose(action, agent.predict(seen)[0], atol=1e-5)
        assert controller.violation(seen, action) <= 1e-6


def test_repeats_its_own_cases(exported):
    folder, _ = exported("H+M", "PPO+CVFlow", "ray", limits=((-50.0,) * 11, (50.0,) * 11))
    controller = cv.Controller.load(folder)
    cases = read_parity(folder, controller.plan)
    controller.max_age = cases.max_age
    for seen, age, action, status in zip(*cases[:2], cases.actions, cases.statuses, strict=True):
        found = controller.act(seen, age=age)
        assert found.status == status
        np.testing.assert_array_equal(found.action, action)


def test_what_it_returns_is_the_callers(artefact):
    """Changing an action does not change the controller's memory of it."""
    controller = cv.Controller.load(artefact)
    first = controller.act(np.zeros(9))
    kept = first.action.copy()
    first.action[:] = 9.0
    again = controller.act(np.full(9, np.nan))
    assert (again.status, again.used) == (Status.FALLBACK_INPUT, Used.LAST)
    np.testing.assert_array_equal(again.action, kept)
    controller.reset()
    assert controller.act(np.full(9, np.nan)).used == Used.ANCHOR
    assert controller.fall_back(np.zeros(9)).status == Status.FALLBACK_ASKED


@pytest.mark.parametrize("wrong", [np.zeros(8), np.zeros((1, 9)), [0.0] * 10])
def test_observations_of_another_shape_are_refused(wrong, artefact):
    with pytest.raises(ValueError, match=r"`observation`: expected shape \(9,\)"):
        cv.Controller.load(artefact).act(wrong)


def rewritten(artefact, folder, change):
    """The artefact with its data changed, and a checksum that fits."""
    data = json.loads((artefact / "controller.json").read_text())
    data.pop("sha256")
    change(data)
    folder.mkdir(exist_ok=True)
    whole = {**data, "sha256": hashlib.sha256(serialise(data)).hexdigest()}
    (folder / "controller.json").write_bytes(serialise(whole))
    return folder


def at(*keys):
    """A function that sets what is at a path of keys."""

    def put(value):
        def change(data):
            for key in keys[:-1]:
                data = data[key]
            data[keys[-1]] = value

        return change

    return put


EVIL = "__import__('os').system('touch pwned')"
HOSTILE = {
    "code as a step": at("rows", "steps", 0)(EVIL),
    "code as an operation": at("rows", "steps", 0)(f"{EVIL} a[0] a[0]"),
    "code as an operand": at("rows", "steps", 0)("abs __import__('os')"),
    "code as a result": at("rows", "results", 0)(EVIL),
    "code as a number": at("rows", "results", 0)("1.0);import os;("),
    "a newline": at("rows", "steps", 0)("abs a[0]\nimport os"),
    "a name of the scope": at("rows", "steps", 0)("abs exp"),
    "an argument's name": at("rows", "sizes")({"a, b=print(1)": 2}),
    "a later step": at("rows", "steps", 0)("abs t1"),
    "an entry that is not there": at("rows", "steps", 0)("abs a[7]"),
    "a negative entry": at("rows", "steps", 0)("abs a[-1]"),
    "an operand too many": at("rows", "steps", 0)("abs a[0] a[1]"),
    "a truth value as a number": at("rows", "results", 0)("True"),
    "steps that are no list": at("rows", "steps")("abs a[0]"),
    "a row less": lambda data: data["rows"]["results"].pop(),
    "weights that are not finite": at("network", "layers", 0, "bias")("AADAfwAAwH8AAMB/"),
    "weights of another size": at("network", "layers", 0, "bias")("AAAAAA=="),
    "other sizes": at("network", "sizes")([9, 16, 16, 5]),
    "an unknown activation": at("network", "activation")("exec"),
    "an unknown fallback": at("fallback")("none"),
    "a fixed action that is none": at("fixed")(["nan", 0.0]),
    "limits that are text": at("low")(["a"] * 9),
    "a huge size": at("observation_dim")(10**12),
    "no context": lambda data: data.pop("context"),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_run_nothing(change, artefact, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="does not describe a controller"):
        cv.Controller.load(rewritten(artefact, tmp_path / "copy", change))
    assert not (tmp_path / "pwned").exists()


def test_a_changed_file_is_refused_by_its_checksum(artefact, tmp_path):
    text = (artefact / "controller.json").read_text()
    (tmp_path / "controller.json").write_text(text.replace('"fallback": "last"', '"fallback": "anchor"'))
    with pytest.raises(StoreError, match="checksum differs"):
        cv.Controller.load(tmp_path)
    (tmp_path / "controller.json").write_text(text[:-20])
    with pytest.raises(StoreError, match="is not JSON"):
        cv.Controller.load(tmp_path)
    with pytest.raises(StoreError, match="is this an exported controller"):
        cv.Controller.load(tmp_path / "nowhere")


def test_data_that_is_no_plan():
    with pytest.raises(FaultyPlanError):
        plan_from({})
    for data in (None, [], {"steps": [], "results": [], "sizes": {"x": 2}}):
        with pytest.raises(FaultyProgramError):
            from_data(data, {"x": 1}, 1)


def test_every_operation_survives_the_way_to_a_file_and_back():
    inputs = {"f": "x[0]", "b": "t0", "i": "3"}
    steps = [Step("lt", ("x[0]", "0.5"))]
    steps += [Step(name, tuple(inputs[kind] for kind in one.takes)) for name, one in OPERATIONS.items()]
    floats = [f"t{index}" for index, step in enumerate(steps) if OPERATIONS[step.operation].gives == "f"]
    program = Program({"x": 1}, steps, [*floats, "x[0]", "-1e-07", "inf"])
    again = from_data(json.loads(json.dumps(program.as_data())), {"x": 1})
    values = program.define("before")([0.3])
    assert again.define("after")([0.3]) == values
    exact = again.define("exact", ieee=True)([np.float64(0.3)])
    np.testing.assert_allclose(exact, values, rtol=1e-14)


def test_what_python_calls_an_error_is_infinite_or_nan():
    program = Program({"x": 1}, [Step("div", ("1.0", "x[0]")), Step("log", ("x[0]",))], ["t0", "t1"])
    with np.errstate(all="ignore"):
        assert program.define("exact", ieee=True)([np.float64(0.0)]) == [np.inf, -np.inf]
