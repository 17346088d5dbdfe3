"""Limits on states are tried after they were learned: kept where they can be, refused or warned of where not."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import cvflows as cv
from cvflows.cli import main
from cvflows.errors import UnenforceableLimitError, UnsafeLimitsWarning
from cvflows.tasks.selftest import Cause


class Drifting(gymnasium.Env):
    """s' = s + 0.1·a·direction + drift, from |s_i| ≤ 0.2, for 60 steps; beyond `slips` it moves on by 0.3 at once."""

    def __init__(self, direction=(1.0,), drift=0.0, slips=np.inf, start=0.0, render_mode=None):
        self.direction, self.drift, self.slips, self.start = np.array(direction), drift, slips, start
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, self.direction.shape, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.steps = self.start + self.np_random.uniform(-0.2, 0.2, self.direction.shape), 0
        return self.state.astype(np.float32), {}

    def step(self, action):
        self.state = self.state + 0.1 * float(action[0]) * self.direction + self.drift
        self.state = np.where(self.state > self.slips, self.state + 0.3, self.state)
        self.steps += 1
        return self.state.astype(np.float32), 0.0, False, self.steps >= 60, {}


def drifting(limits, **settings):
    return cv.Task.from_env(lambda render_mode=None: Drifting(**settings), limits=cv.Ranges(limits), name="drifting")


def causes(self_test):
    return {exit_.cause for exit_ in self_test.exits}


@pytest.mark.parametrize(
    "name",
    [
        "Ball1D",
        "Space-Corridor",
        "Pole",
        *(pytest.param(n, marks=pytest.mark.thorough) for n in ("Ball3D", "Space-Arena")),
    ],
)
def test_the_worlds_whose_limits_can_be_kept_pass(name):
    task = cv.task(name)
    tried = task.learn(episodes=100, self_test=5).self_test
    assert tried.passed
    assert tried.problem is None
    assert [test.policy for test in tried.policies] == ["random", *(f"push at {limit}" for limit in task.limits.names)]
    assert all((test.episodes, test.exits) == (5, ()) for test in tried.policies)
    assert all(test.projected > 0 for test in tried.policies)  # the guard had something to do


@pytest.mark.thorough
def test_a_limit_that_gravity_overpowers_is_refused():
    task = cv.Task.from_env("Pendulum-v1", limits=cv.Ranges({2: (-4.0, 4.0)}))
    with pytest.raises(
        UnenforceableLimitError, match=r"limit s2 [≤≥] -?4 cannot be enforced: in [2-6]\.\d% of the .*allow_weak=True"
    ):
        task.learn(episodes=50)
    with pytest.warns(
        UnsafeLimitsWarning, match=r"of 10 episodes left them .* \(too weak\).*give actions more strength"
    ):
        found = task.learn(episodes=50, allow_weak=True, self_test=10)
    assert Cause.TOO_WEAK in causes(found.self_test)
    assert found.self_test.worst.share > 0.2
    assert max(signal.overpowered for signal in found.learned.signals) > 0.01


def test_an_end_stop_that_was_never_seen_is_named():
    """Balancing runs the cart to the end of its rail, which random actions never reach."""
    task = cv.Task.from_env("InvertedPendulum-v5", limits=cv.Ranges({1: (-0.12, 0.12)}))
    with pytest.warns(UnsafeLimitsWarning, match=r"\(wrong model\).*values of s0 were met that no learned transition"):
        tried = task.learn(episodes=100, self_test=3).self_test
    assert tried.worst.share == 1
    assert causes(tried) == {Cause.WRONG_MODEL}
    assert 0 in tried.unseen


def test_a_backup_law_keeps_both_the_end_stop_and_the_angle():
    found = cv.task("InvertedPendulum").learn(steps=4000, alpha=0.005, self_test=2)
    assert found.learned.constraint.form == "backup"
    assert found.self_test.exits == ()
    assert found.self_test.covered >= 0.99
    assert max(test.projected for test in found.self_test.policies) > 0
    assert json.loads(json.dumps(found.as_json()))["alpha"] == found.learned.alpha
    figures = found.as_json()["self_test"]
    assert figures["covered"] == found.self_test.covered


def test_rounds_collect_where_the_guard_acts():
    """With the guard on, a policy of the user's goes to the limit, where random actions never were."""
    task = drifting({0: (-1.5, 1.5)})
    asked = []

    def right(observation):
        asked.append(float(observation[0]))
        return np.ones(1)

    first = task.learn(episodes=5, self_test=0)
    second = task.learn(episodes=5, rounds=2, policies=[right], self_test=0)
    assert max(asked) > 1.3
    assert second.learned.transitions == first.learned.transitions + 4000
    assert float(np.max(second.task.contexts.values)) <= 1.5 + 1e-5
    with pytest.raises(ValueError, match="`policies`: expected at least 2 rounds"):
        task.learn(policies=[right])
    with pytest.raises(ValueError, match="`rounds`: expected a whole number ≥ 1"):
        task.learn(rounds=0)


def test_a_limit_on_power_holds_beside_one_on_speed():
    task = cv.task("Pendulum-Strong")
    found = task.learn(steps=3000, rounds=1, alpha=0.01, self_test=0)
    fast = [1.0, 0.0, 3.5]
    assert not found.task.constraint.contains(fast, [0.9])  # spends 3.15
    assert found.learned.constraint.contains([1.0, 0.0, 1.0], [0.9])
    assert found.task.constraint.contains(fast, [-0.9])  # braking spends nothing
    env = found.task.make_env(guard=True)
    observation, _ = env.reset(seed=0)
    for _ in range(200):
        observation, *_, info = env.step([1.0])
        assert abs(observation[2]) <= 4 + 1e-5
    assert info["episode_cost"] == 0


@pytest.mark.thorough
def test_the_end_stop_and_the_angle_cannot_both_be_kept():
    both = cv.Task.from_env("InvertedPendulum-v5", limits=cv.Ranges({1: (-0.12, 0.12), 0: (-0.7, 0.7)}))
    with pytest.warns(UnsafeLimitsWarning, match=r"\(empty\).*limits contradict each other"):
        tried = both.learn(episodes=200, self_test=3).self_test
    assert Cause.EMPTY in causes(tried)


def test_a_wind_stronger_than_the_motor_is_too_weak():
    task = drifting({0: (-5.0, 1.0)}, drift=0.15)
    with pytest.raises(UnenforceableLimitError, match=r"s0 ≤ 1 .* in 100.0% .*by up to 0.15 per step.*\(0.1\)"):
        _ = task.constraint
    with pytest.warns(UnsafeLimitsWarning):
        tried = task.learn(episodes=20, allow_weak=True, self_test=4).self_test
    assert causes(tried) == {Cause.TOO_WEAK}
    assert {exit_.limit for exit_ in tried.exits} == {"s0 ≤ 1"}
    assert all(test.share == 1 for test in tried.policies)
    kept = drifting({0: (-5.0, 1.0)}, drift=0.05).learn(episodes=20, self_test=4).self_test
    assert kept.passed


def test_a_slope_that_begins_beyond_what_was_seen_is_a_wrong_model():
    task = drifting({0: (-3.0, 3.0)}, slips=2.8)
    with pytest.warns(UnsafeLimitsWarning):
        tried = task.learn(episodes=20, self_test=4).self_test
    assert causes(tried) == {Cause.WRONG_MODEL}
    assert {test.policy: len(test.exits) for test in tried.policies}["push at s0 ≤ 3"] == 4
    assert tried.unseen == (0,)


def test_limits_that_ask_for_opposite_actions_are_empty():
    """Each limit alone can be kept; together they cannot, since s0 + s1 grows whatever the action is."""
    settings = {"direction": (1.0, -1.0), "drift": 0.02}
    with pytest.warns(UnsafeLimitsWarning):
        tried = drifting({0: (-9.0, 0.5), 1: (-9.0, 0.5)}, **settings).learn(episodes=20, self_test=4).self_test
    assert causes(tried) == {Cause.EMPTY}
    assert drifting({0: (-9.0, 0.5)}, **settings).learn(episodes=20, self_test=4).self_test.passed


def test_episodes_that_begin_outside_are_counted_apart():
    half = drifting({0: (0.0, 2.0)}).learn(episodes=20, self_test=20).self_test
    assert half.passed
    for test in half.policies:
        assert test.episodes + test.began_outside == 20
        assert 3 < test.began_outside < 17
    with pytest.warns(UnsafeLimitsWarning, match="every test episode began outside"):
        none = drifting({0: (-1.0, 1.0)}, start=2.0).learn(episodes=20, self_test=3).self_test
    assert not none.passed
    assert none.episodes == 0
    assert json.loads(json.dumps(none.as_json()))["policies"][0]["began_outside"] == 3


def test_the_self_test_repeats_is_optional_and_goes_into_json():
    task = drifting({0: (-1.0, 1.0)})
    first, second = (task.learn(episodes=10, seed=3, self_test=3) for _ in range(2))
    assert first.self_test.policies == second.self_test.policies
    figures = json.loads(json.dumps(first.as_json()))
    assert figures["self_test"]["passed"] is True
    assert [cost["limit"] for cost in figures["costs"]] == ["s0 ≥ -1", "s0 ≤ 1"]
    assert figures["costs"][0]["strength"] == pytest.approx(0.1, rel=1e-3)
    skipped = task.learn(episodes=10, self_test=0)
    assert skipped.self_test is None
    assert skipped.as_json()["self_test"] is None
    with pytest.raises(ValueError, match="`self_test`: expected a whole number ≥ 0, got -1"):
        task.learn(self_test=-1)


@pytest.mark.thorough
def test_train_prints_what_the_self_test_found(tmp_path, capsys):
    quick = ["--steps", "200", "--final-episodes", "1", "--method", "SAC", "--set", "hidden=16,16"]
    assert main(["train", "Pole", "--form", "drift", *quick, "--out", str(tmp_path / "a"), "--json"]) == 0
    printed = capsys.readouterr()
    tried = json.loads(printed.out)["signal"]["self_test"]
    assert not tried["passed"]
    assert max(test["left"] for test in tried["policies"]) > 10
    assert "warning: the learned constraint does not keep its limits" in printed.err
    assert main(["train", "Ball1D", *quick, "--out", str(tmp_path / "b")]) == 0
    printed = capsys.readouterr()
    assert "push at s0 ≥ 0.1" in printed.out
    assert "does not keep its limits" not in printed.err
    assert main(["train", "Ball1D", *quick, "--out", str(tmp_path / "b")]) == 2  # before anything is learned again
    assert "expected a new folder" in capsys.readouterr().err
