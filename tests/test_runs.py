"""Runs: they learn, they never execute a forbidden action, and a run that was killed ends as if it had not been."""

import json
import shutil
import signal
import subprocess
import sys
import time

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.disk import FaultyDisk, KilledError

import cvflows as cv
from cvflows.cli import main
from cvflows.envs.wrappers import AllowedOnly
from cvflows.errors import ArgumentError, DamageWarning, EmptySetError, FaultyEnvironmentError, StoreError
from cvflows.files import read_record, write_record
from cvflows.runs.acting import LearningError
from cvflows.runs.config import RunConfig, fingerprint, make_config, parse_overrides
from cvflows.runs.identity import FORMAT
from cvflows.runs.session import begin, complete, resume
from cvflows.runs.store import RunFolder

QUICK = {"hidden": (16, 16), "batch": 32, "learning_starts": 200, "learning_rate": 1e-3}
OBSERVATION = np.array([0.3, 0.1, 0.9], np.float32)
TABLES = ("metrics.csv", "evaluations.csv", "losses.csv", "final.json")


@pytest.fixture(scope="module")
def ball():
    return cv.task("Ball1D").learn(episodes=100, self_test=0).task


@pytest.fixture(scope="module")
def ball_map(ball, tmp_path_factory):
    map_ = cv.make_map("gauge", ball.constraint, ball.contexts, splines=False)
    return cv.save_map(map_, tmp_path_factory.mktemp("map"))


def config_of(task, **options):
    chosen = {"steps": 1200, "checkpoint_every": 300, "evaluate_every": 500, "final_episodes": 4, "overrides": QUICK}
    return make_config(task, options.pop("method", "SAC+CVFlow"), **{**chosen, **options})


def checked(task):
    return lambda: AllowedOnly(task.make_env(), task.constraint, task.reads)


def contents(folder):
    return {name: (folder / name).read_bytes() for name in TABLES if (folder / name).exists()}


@pytest.mark.optimised
def test_learns_the_ball_within_a_minute():
    agent = cv.Agent("SAC+CVFlow", "Ball1D", seed=3)
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


@pytest.mark.optimised
def test_killed_at_any_moment_it_ends_the_same(tmp_path):
    arguments = [
        "train",
        "Ball1D",
        "--method",
        "SAC",
        "--steps",
        "6000",
        "--set",
        "hidden=16,16",
        "--set",
        "learning_starts=500",
    ]
    arguments += ["--checkpoint-every", "500"]
    command = [sys.executable, "-m", "cvflows"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*command, *arguments, "--out", str(whole)], check=True, capture_output=True)
    process = subprocess.Popen([*command, *arguments, "--out", str(killed)], stderr=subprocess.DEVNULL)
    kills = 0
    for wait in (0.0, 0.7, 0.4):
        while process.poll() is None and not (killed / "checkpoint.json").exists():
            time.sleep(0.02)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        process = subprocess.Popen([*command, "resume", str(killed)], stderr=subprocess.DEVNULL)
        if wait:
            time.sleep(3)
    assert process.wait() == 0
    assert kills
    assert contents(killed) == contents(whole)


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


@pytest.fixture(scope="module")
def two_checkpoints(ball, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    trainer = begin(ball, config_of(ball, method="DDPG"), folder)
    trainer.run(until=700)
    trainer.close()
    return folder


def one_byte(text):
    return text[:60] + ("x" if text[60] != "x" else "y") + text[61:]


@pytest.mark.parametrize(
    ("names", "spoil", "message"),
    [
        (["config.json"], lambda text: text.replace('"seed": 0', '"seed": 1'), "its checksum differs"),
        (["config.json"], lambda text: text[:40], "is not JSON, is it truncated"),
        (["config.json"], lambda text: text.replace("cvflows run", "other"), "was not written by cvflows"),
        (["config.json"], lambda text: text.replace('"version": 2', '"version": 3'), "update cvflows"),
        (["config.json"], lambda text: text.replace('"version": 2', '"version": 1'), "version 1, .*make it again"),
        (["config.json"], lambda text: text.replace("\n", " \n", 1), "its checksum differs"),
        (["config.json"], lambda text: "[" * 100_000, "is not JSON"),
        (["constraint.json"], one_byte, "checksum|is not JSON|was not written"),
        (["checkpoint.json", "previous.json"], lambda text: text[:40], "no checkpoint that can be used: .*is not JSON"),
        (["metrics.csv"], lambda text: text.replace("1", "2", 1), "no checkpoint.*metrics.csv was changed"),
        (["metrics.csv"], lambda text: text[:90], r"no checkpoint.*metrics.csv has \d+ of \d+ bytes"),
    ],
)
def test_damaged_folders_are_named_and_left_alone(two_checkpoints, tmp_path, names, spoil, message):
    folder = shutil.copytree(two_checkpoints, tmp_path / "run")
    for name in names:
        (folder / name).write_text(spoil((folder / name).read_text()))
    before = {path.name: path.read_bytes() for path in folder.glob("*.*")}
    for look_only in (True, False):
        with pytest.raises(StoreError, match=message):
            resume(folder, look_only=look_only)
    assert {path.name: path.read_bytes() for path in folder.glob("*.*")} == before
    with pytest.raises(StoreError, match="is this a run folder"):
        resume(tmp_path / "nowhere")


def test_a_name_that_leads_out_of_the_folder_is_refused(two_checkpoints, tmp_path):
    folder = shutil.copytree(two_checkpoints, tmp_path / "run")
    record = read_record(folder / "checkpoint.json", FORMAT)
    (tmp_path / "outside").write_bytes((folder / record["state"]["file"]).read_bytes())
    record["state"]["file"] = "../outside"
    for name in ("checkpoint.json", "previous.json"):
        write_record(folder / name, FORMAT, {**record, "file": name})
    with pytest.raises(StoreError, match=r"'\.\./outside' is not a plain file name"):
        resume(folder)


def test_a_linked_table_is_not_followed(two_checkpoints, tmp_path):
    folder, outside = shutil.copytree(two_checkpoints, tmp_path / "run"), tmp_path / "precious"
    (folder / "metrics.csv").rename(outside)
    (folder / "metrics.csv").symlink_to(outside)
    before = outside.read_bytes()
    with pytest.raises(StoreError, match="a symbolic link is not followed"):
        resume(folder)
    for name in ("checkpoint.json", "previous.json"):
        (folder / name).unlink()
    trainer = resume(folder)  # from the start: the link goes, what it led to stays
    trainer.run(until=200)
    trainer.close()
    assert outside.read_bytes() == before
    assert not (folder / "metrics.csv").is_symlink()


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
    figures = complete(begin(ball, config_of(ball, method="TD3", steps=2100, overrides=overrides), tmp_path))
    rows = RunFolder(tmp_path).table("losses.csv")
    assert [int(row["step"]) // 1000 for row in rows] == [1, 2]
    assert all(
        float(row["actor_loss"]) != 0 for row in rows
    )  # its update is a delayed one, the loss is the last real one
    assert figures["steps"] / figures["seconds"] == pytest.approx(figures["steps_per_second"], rel=0.2)

    trainer = begin(ball, config_of(ball, method="TD3", steps=500), tmp_path / "broken")
    update = trainer.learner.update
    monkeypatch.setattr(trainer.learner, "update", lambda *some: {**update(*some), "critic_loss": float("nan")})
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


def test_settings_are_checked(ball):
    config = config_of(ball)
    assert RunConfig.from_json(json.loads(json.dumps(config.as_json()))) == config
    assert config_of(ball, seed=1).fingerprint != config.fingerprint
    assert parse_overrides(["hidden=64,64", "learning_rate=1e-3"]) == {"hidden": "64,64", "learning_rate": "1e-3"}
    with pytest.raises(LookupError, match="did you mean 'learning_rate'"):
        config_of(ball, overrides={"learning_rat": 1})
    with pytest.raises(LookupError, match=r"did you mean 'SAC\+CVFlow'"):
        config_of(ball, method="SAC+CVFlows")
    with pytest.raises(ValueError, match="`learning_starts`: expected ≥ 30 steps to standardise by, got 20"):
        config_of(ball, overrides={"standardise": True, "learning_starts": 20})
    for name, value in (
        *(
            ("learning_rate", float("nan")),
            ("batch", 0),
            ("discount", 5),
            ("tau", -1),
            ("hidden", (0,)),
            ("hidden", ()),
        ),
        *(("buffer", 10**30), ("penalty", float("inf")), ("train_every", 0), ("updates_per_step", -1)),
        ("final_rate", 2),
    ):
        with pytest.raises(ValueError, match=f"`{name}`: expected"):
            config_of(ball, overrides={name: value})
    for name, value in (("steps", 0), ("seed", -1), ("num_envs", 10**30), ("final_episodes", 0), ("form", "x")):
        with pytest.raises((ValueError, LookupError), match=name):
            config_of(ball, **{name: value})
    with pytest.raises(ValueError, match="name=value"):
        parse_overrides(["batch"])
    paper = make_config(cv.task("R+L2"), "sac+cvflow", preset="paper")
    assert (paper.settings.learning_rate, paper.settings.learning_starts, paper.method) == (
        7.3e-4,
        10_000,
        "SAC+CVFlow",
    )


def test_a_config_of_an_earlier_version_is_read(ball, tmp_path):
    """Settings that it did not know have their defaults."""
    folder, config = RunFolder(tmp_path), config_of(ball)
    folder.create(config)
    data = read_record(tmp_path / "config.json", FORMAT)
    del data["settings"]["final_rate"], data["fingerprint"], data["file"]
    written = {**data, "fingerprint": fingerprint(data), "file": "config.json"}
    write_record(tmp_path / "config.json", FORMAT, written)
    assert folder.config() == config


def test_command_line_trains_resumes_and_evaluates(tmp_path, capsys):
    run = str(tmp_path / "run")
    quick = ["--steps", "400", "--set", "hidden=16,16", "--set", "learning_starts=200"]
    assert main(["train", "ball1d", "--method", "sac", *quick, "--out", run, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["method"] == "SAC"
    assert (tmp_path / "run" / "curves.png").stat().st_size > 10_000
    (events,) = (tmp_path / "run" / "tensorboard").glob("events.*")
    assert b"training/return" in events.read_bytes()
    assert main(["resume", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["final"] == figures["final"]
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.*")}
    film = tmp_path / "film.gif"
    assert main(["evaluate", run, "--episodes", "3", "--video", str(film)]) == 0
    assert "final" in capsys.readouterr().out
    assert film.stat().st_size > 1000
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.*")} == before
    assert main(["train", "Ball1D", "--method", "sac", *quick, "--out", run]) == 2
    assert "cvflows resume" in capsys.readouterr().err


def test_a_board_knows_a_resumed_run_by_the_same_fingerprint(ball, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "cvflows.runs.session._boards", lambda project, config, run: seen.append(config.fingerprint) or []
    )
    begin(ball, config_of(ball, method="DDPG"), tmp_path).close()
    resume(tmp_path).close()
    assert len(seen) == 2
    assert len(set(seen)) == 1
