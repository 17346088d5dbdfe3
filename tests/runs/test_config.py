"""Settings of runs: checked by name, read from files of earlier versions."""

import json
import subprocess
import sys

import pytest

import cvflows as cv
from cvflows.files import read_record, write_record
from cvflows.runs.config import RunConfig, fingerprint, make_config, parse_overrides
from cvflows.runs.folder import RunFolder
from cvflows.runs.identity import FORMAT
from small import config_of


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


HOSTILE = """
import numpy as np, pathlib, cvflows as cv
from cvflows.errors import CVFlowsError
from cvflows.runs.config import make_config
for values in ({"map": pathlib.Path("x")}, {"map": 3.5}, {"map": []}, {"preset": np.zeros(3)}, {"preset": 1}):
    try:
        make_config(cv.task("R+L2"), "SAC+CVFlow", **values)
    except CVFlowsError as error:
        print(error)
"""


def test_ends_at_limits_are_part_of_a_run_and_need_limits(ball):
    """Runs without them keep the fingerprints that they had before there were any."""
    config = config_of(ball)
    assert "ending" not in config.as_json()
    ending = config_of(ball, ending=0.5)
    assert ending.fingerprint != config.fingerprint
    assert RunConfig.from_json(json.loads(json.dumps(ending.as_json()))) == ending
    with pytest.raises(ValueError, match=r"`ending`: expected 0: R\+L2 has no limits on states, got 0.5"):
        make_config(cv.task("R+L2"), "SAC", ending=0.5)
    with pytest.raises(ValueError, match="`ending`: expected"):
        config_of(ball, ending=1.5)


def test_names_that_are_no_text_are_refused():
    """In a process of its own: here, types are checked before."""
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == ["`kind`"] * 3, done.stderr
    assert all(line.startswith("unknown preset") for line in lines[3:])
    assert len(lines) == 5


def test_a_config_of_an_earlier_version_is_read(ball, tmp_path):
    """Settings that it did not know have their defaults."""
    folder, config = RunFolder(tmp_path), config_of(ball)
    folder.create(config)
    data = read_record(tmp_path / "config.json", FORMAT)
    del data["settings"]["final_rate"], data["fingerprint"], data["file"]
    written = {**data, "fingerprint": fingerprint(data), "file": "config.json"}
    write_record(tmp_path / "config.json", FORMAT, written)
    assert folder.config() == config
