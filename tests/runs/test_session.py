"""Whole runs: one that was killed ends as if it had not been, and one is known by its map and constraint."""

import json
import signal
import subprocess
import sys
import time

import pytest

import cvflows as cv
from cvflows.cli import main
from cvflows.errors import ArgumentError, DamageWarning, StoreError
from cvflows.runs.folder import RunFolder
from cvflows.runs.session import begin, complete, resume
from small import config_of, contents

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="SAC+CVFlow"),
        pytest.param({"num_envs": 2, "method": "TD3"}, id="TD3, two environments", marks=pytest.mark.thorough),
    ],
)
def test_resuming_from_a_checkpoint_changes_nothing(ball, ball_map, tmp_path, options):
    config = config_of(ball, **options)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    complete(begin(ball, config, whole, map_folder=ball_map))

    def stop_at(step):
        def stop(trainer):
            if trainer.step >= step:
                raise KeyboardInterrupt

        return stop

    with pytest.raises(KeyboardInterrupt):  # before the first checkpoint: from the start
        begin(ball, config, broken, map_folder=ball_map).run(tick=stop_at(250))
    assert (broken / "metrics.csv").exists()
    assert not RunFolder(broken).has_checkpoint()
    with pytest.raises(KeyboardInterrupt):  # what followed the last checkpoint is done again
        resume(broken).run(tick=stop_at(700))
    trainer = resume(broken)
    assert 300 <= trainer.step < 700
    complete(trainer)
    assert contents(broken) == contents(whole)


def last_checkpoint(folder):
    path = folder / "checkpoint.json"
    return path.read_bytes() if path.exists() else None


@pytest.mark.optimised
def test_killed_at_any_moment_it_ends_the_same(tmp_path):
    """At a checkpoint, and between two."""
    settings = ["--set", "hidden=16,16", "--set", "learning_starts=500", "--checkpoint-every", "500"]
    settings += ["--final-episodes", "2", "--evaluation-episodes", "1"]
    train = ["train", "R+L2", "--method", "SAC", "--steps", "3000", *settings, "--out"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    def started(*words):
        return subprocess.Popen([sys.executable, "-m", "cvflows", *words], stdout=subprocess.DEVNULL)

    assert started(*train, str(whole)).wait() == 0
    process, seen, kills = started(*train, str(killed)), None, 0
    for wait in (0.0, 0.3):
        while process.poll() is None and last_checkpoint(killed) == seen:
            time.sleep(0.01)
        seen = last_checkpoint(killed)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        process = started("resume", str(killed))
    assert process.wait() == 0
    assert kills
    assert contents(killed) == contents(whole)


def test_damage_to_the_last_checkpoint_costs_only_the_steps_since_the_one_before(ball, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    config = config_of(ball, method="DDPG")
    complete(begin(ball, config, whole))
    trainer = begin(ball, config, broken)
    trainer.run(until=700)
    trainer.close()
    newest = json.loads((broken / "checkpoint.json").read_text())
    before = json.loads((broken / "previous.json").read_text())
    assert before["counts"]["step"] < newest["counts"]["step"]
    state = broken / newest["state"]["file"]
    content = bytearray(state.read_bytes())
    content[-1] ^= 1
    state.write_bytes(content)
    with pytest.warns(DamageWarning, match=rf"{state.name} is truncated or was changed.*checkpoint before it is used"):
        trainer = resume(broken, ball)
    assert trainer.step == before["counts"]["step"]
    complete(trainer)
    assert contents(broken) == contents(whole)


def test_nobody_touches_a_run_that_another_holds(ball, tmp_path, capsys):
    """Neither `resume` nor `train` on the same folder, whether it has a checkpoint or not."""
    trainer = begin(ball, config_of(ball, method="DDPG"), tmp_path)
    for until in (200, 700):
        trainer.run(until=until)
        before = {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}
        assert before["metrics.csv"]
        for command in (["resume", str(tmp_path)], ["train", "Ball1D", "--method", "DDPG", "--out", str(tmp_path)]):
            assert main(command) == 2
            assert "is being trained by another process" in capsys.readouterr().err
        with pytest.raises(StoreError, match="is being trained"):
            begin(ball, config_of(ball, method="DDPG"), tmp_path)
        assert {path.name: path.read_bytes() for path in tmp_path.glob("*.*")} == before
    assert resume(tmp_path, look_only=True).step == 700
    trainer.close()
    with pytest.raises(ArgumentError, match="holds another run"):
        begin(ball, config_of(ball, method="DDPG", seed=1), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.*")} == before
    resume(tmp_path).close()


def test_a_run_is_known_by_its_map_and_constraint(ball, ball_map, tmp_path):
    other = cv.task("Ball1D").learn(episodes=60, seed=9).task
    trainer = begin(ball, config_of(ball, method="DDPG"), tmp_path / "one")
    second = begin(other, config_of(ball, method="DDPG"), tmp_path / "two")
    assert trainer.config.plan == second.config.plan
    assert trainer.config.fingerprint != second.config.fingerprint
    for some in (trainer, second):
        some.close()
    (tmp_path / "one" / "constraint.json").write_bytes((tmp_path / "two" / "constraint.json").read_bytes())
    with pytest.raises(ArgumentError, match="`task`: expected the constraint that this run was trained with"):
        resume(tmp_path / "one")
    begin(ball, config_of(ball), tmp_path / "map", map_folder=ball_map).close()
    wider = cv.make_map("boxspline", ball.constraint, ball.contexts, width=8)
    cv.save_map(wider, tmp_path / "map" / "map")
    with pytest.raises(ArgumentError, match="`map`: expected the map that this run was trained with"):
        resume(tmp_path / "map")
