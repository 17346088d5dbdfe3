"""The training loop: it learns, it never executes a forbidden action, and says what is wrong with an environment."""

from dataclasses import replace

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cvflows.errors import EmptySetError, FaultyEnvironmentError
from cvflows.runs.acting import LearningError
from cvflows.runs.config import make_config
from cvflows.runs.folder import RunFolder
from cvflows.runs.session import begin, complete, resume
from cvflows.runs.train import Trainer
from small import QUICK, checked, config_of, contents

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.mark.thorough
@pytest.mark.optimised
def test_learns_the_ball_within_a_minute():
    task = cv.task("Ball1D").learn(episodes=100, self_test=0).task
    agent = cv.Agent("SAC+CVFlow", task, seed=3)
    agent.learn(5000, progress=False)
    figures = agent.evaluate(20)
    assert figures["return"] > 64
    assert figures["cv_count"] == figures["left_percent"] == 0
    assert sum(episode.left for episode in agent.episodes) == 0


@pytest.mark.parametrize(
    "method",
    ["SAC+CVFlow", "TD3", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("DDPG+CVFlow", "SAC", "DDPG"))],
)
def test_no_forbidden_action_is_executed(method, ball, ball_map, tmp_path):
    config = config_of(ball, method=method, steps=600)
    figures = complete(begin(ball, config, tmp_path, map_folder=ball_map, make_env=checked(ball)))
    assert figures["steps"] == 600
    assert figures["final"]["episodes"] == 4
    assert figures["training"]["left_percent"] == 0
    counted = figures["training"]["cv_count"]
    assert counted == 0 if "CVFlow" in method else counted > 0
    assert np.isfinite(figures["final"]["return"])


class Walk(gymnasium.Env):
    """One number that actions push; returns what is wrong with it at the tenth step."""

    def __init__(self, reward=1.0, size=1):
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.wrong, self.size, self.count, self.pushed = reward, size, 0, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1), {}

    def step(self, action):
        self.count += 1
        self.pushed.append(float(action[0]))
        late = self.count >= 10
        return np.full(self.size if late else 1, float(late)), self.wrong if late else 0.0, False, self.count > 20, {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward": np.nan}, "Walk returned the reward nan"),
        ({"size": 2}, r"Walk returned an observation .* \(2,\)"),
    ],
)
def test_a_faulty_environment_is_named(options, message, tmp_path):
    task = cv.Task.from_env(lambda render_mode=None: Walk(**options), cv.Box(1))
    with pytest.raises(FaultyEnvironmentError, match=message):
        begin(task, config_of(task, method="SAC"), tmp_path).run()


def test_empty_sets_stop_a_run_or_are_counted(tmp_path):
    """From the tenth step of an episode on, |a| ≤ -0.5: nothing is allowed."""
    limit = cv.Constraint(lambda x, a: jnp.abs(a) - 1 + 1.5 * x, action_dim=1, context_dim=1, convex=True)

    def task_of(on_empty):
        return cv.Task.from_env(
            lambda render_mode=None: Walk(), limit, [0], contexts=cv.Uniform(1, 0.0, 0.1), on_empty=on_empty
        )

    task = task_of(None)
    with pytest.raises(EmptySetError, match=r"no action is allowed at context \(1\)"):
        begin(task, config_of(task, method="SAC"), tmp_path / "raise").run()
    task = task_of([0.25])
    config = config_of(task, method="SAC", steps=210, overrides={**QUICK, "learning_starts": 1000})
    figures = complete(begin(task, config, tmp_path / "told"))
    assert figures["training"]["empty_count"] == figures["training"]["executed_count"] == 110
    assert figures["final"]["empty_count"] == 4 * 11
    rows = RunFolder(tmp_path / "told").table("metrics.csv")
    assert [(row["empty"], row["executed"]) for row in rows] == [("11", "11")] * 10


def test_several_environments_at_once(tmp_path):
    """Hoppers fall at different times, so that a checkpoint breaks some episodes off."""
    hopper = cv.task("H+M")
    trainer = begin(hopper, config_of(hopper, method="TD3", num_envs=3, steps=900), tmp_path, make_env=checked(hopper))
    trainer.run()
    assert trainer.step == 900
    numbers = [episode.number for episode in trainer.episodes]
    assert len(set(numbers)) == len(numbers)
    assert any(episode.cut for episode in trainer.episodes)
    lengths = sum(episode.length for episode in trainer.episodes)
    assert lengths <= 900 <= lengths + sum(episode.length for episode in trainer.now)


def test_an_evaluation_at_the_step_of_a_checkpoint_is_not_lost(ball, tmp_path):
    """Episodes of Ball1D last 76 steps, so both fall on step 152."""
    config = config_of(ball, method="DDPG", steps=228, checkpoint_every=152, evaluate_every=76)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    complete(begin(ball, config, whole))

    def stop(trainer):
        if trainer.saved == 152:
            raise KeyboardInterrupt

    trainer = begin(ball, config, broken)
    with pytest.raises(KeyboardInterrupt):
        trainer.run(tick=stop)
    trainer.close()
    trainer = resume(broken)
    assert [row["step"] for row in trainer.evaluations] == [76, 152]
    complete(trainer)
    assert contents(broken) == contents(whole)


def test_losses_are_looked_at_whatever_the_rhythm_of_updates(ball, tmp_path, monkeypatch):
    overrides = {**QUICK, "train_every": 8, "learning_starts": 100}
    complete(begin(ball, config_of(ball, method="TD3", steps=2100, overrides=overrides), tmp_path))
    rows = RunFolder(tmp_path).table("losses.csv")
    assert [int(row["step"]) // 1000 for row in rows] == [1, 2]
    assert all(
        float(row["actor_loss"]) != 0 for row in rows
    )  # its update is a delayed one, the loss is the last real one

    trainer = begin(ball, config_of(ball, method="TD3", steps=500), tmp_path / "broken")
    learn = trainer.learner.learn

    def broken():
        metrics = learn()
        return None if metrics is None else {**metrics, "critic_loss": jnp.asarray(jnp.nan)}

    monkeypatch.setattr(trainer.learner, "learn", broken)
    with pytest.raises(LearningError, match="critic_loss became NaN"):
        trainer.run()
    assert not trainer.folder.has_checkpoint()
    trainer.close()


def test_speed_counts_the_parts_that_a_run_consists_of(ball, tmp_path):
    config = config_of(ball, method="DDPG")
    trainer = begin(ball, config, tmp_path)
    trainer.run(until=700)
    trainer.close()
    figures = complete(resume(tmp_path))
    rows = RunFolder(tmp_path).table("timing.csv")
    assert [int(row["from"]) for row in rows] == [0, *(int(row["step"]) for row in rows[:-1])]
    assert int(rows[-1]["step"]) == 1200
    seconds = sum(float(row["seconds"]) for row in rows)
    assert figures["steps_per_second"] == pytest.approx(1200 / seconds, rel=0.01)
    again = complete(resume(tmp_path))
    assert again["steps_per_second"] == figures["steps_per_second"]


def test_a_table_keeps_the_columns_it_began_with(ball, tmp_path):
    """A run that began before the processor's time was counted is resumed without it."""
    trainer = begin(ball, config_of(ball, method="DDPG"), tmp_path)
    trainer.run(until=700)
    began = trainer.tables["timing.csv"]
    assert "".join(began).startswith("step,from,seconds,processor\n")
    trainer.tables["timing.csv"] = [line.rsplit(",", 1)[0] + "\n" for part in began for line in part.splitlines()]
    trainer.save_to(trainer.folder)
    trainer.close()
    complete(resume(tmp_path))
    rows = RunFolder(tmp_path).table("timing.csv")
    assert int(rows[-1]["step"]) == 1200
    assert all(set(row) == {"step", "from", "seconds"} for row in rows)


class Drifting(gymnasium.Env):
    """Moves by a tenth per step, whatever is done."""

    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        self.place = np.zeros(1)
        return self.place.copy(), {}

    def step(self, action):
        self.place += 0.1
        return self.place.copy(), 1.0, False, bool(self.place[0] > 0.95), {}


def test_limits_end_episodes_of_training_and_not_of_evaluation():
    task = replace(cv.Task.from_env(Drifting, cv.Box(1)), limits=cv.Ranges({0: (-1.0, 0.45)}), ending=1.0)
    config = make_config(task, "SAC", steps=200, evaluate_every=100, evaluation_episodes=2, overrides=QUICK)
    assert config.ending == 1.0
    trainer = Trainer(task, config, None)
    trainer.run()
    assert {(episode.length, episode.cost) for episode in trainer.episodes} == {(5, 1)}
    assert [row["length"] for row in trainer.evaluations] == [10, 10]
    assert [row["cost"] for row in trainer.evaluations] == [6, 6]
    trainer.close()
