"""Suites: grids that are checked, runs that go on, failures that stop nothing."""

import json
import signal
import subprocess
import sys
import time

import pytest

from cvflows.cli import main
from cvflows.errors import ArgumentError, StoreError, UnknownNameError
from cvflows.runs.grid import Grid, jobs_of
from cvflows.runs.launch import Local
from cvflows.runs.progress import find_runs, read_status
from cvflows.runs.store import RunFolder

GRID = """
tasks = ["R+L2"]
methods = ["SAC+CVFlow", "DPre+"]
seeds = [3]
steps = 600
checkpoint_every = 200
final_episodes = 2
[set]
hidden = [16, 16]
batch = 32
learning_starts = 100
"""


def test_a_grid_is_every_task_method_and_seed():
    grid = Grid(("r+d", "Ball1D"), ("sac+cvflow", "FlowPG", "SAC"), 2, steps={"ball1d": 500})
    configs = grid.configs()
    assert len(configs) == 12
    assert {config.steps for config in configs if config.task == "Ball1D"} == {500}
    assert {config.steps for config in configs if config.task == "R+D"} == {300_000}


def test_what_runs_share_is_prepared_once(tmp_path):
    jobs = jobs_of(Grid(("R+D", "Ball1D", "R+L2"), ("SAC", "DDPG+CVFlow", "SAC+CVFlow"), 2), tmp_path)
    first = {job.name: job for job in jobs if job.kind == "prepare"}
    assert len(jobs) == 3 + 18
    assert first["R+D shared"].data["methods"] == ["DDPG+CVFlow", "SAC+CVFlow"]
    assert {job.needs for job in jobs if job.kind == "run"} == set(first)
    alone = jobs_of(Grid(("R+D", "Ball1D"), ("SAC",)), tmp_path)  # Ball1D needs its constraint learned
    assert [job.name for job in alone if job.kind == "prepare"] == ["Ball1D shared"]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"methods": ("SAC+CVFlw",)}, UnknownNameError, "did you mean 'SAC\\+CVFlow'"),
        ({"tasks": ("R+D2",)}, UnknownNameError, "unknown task 'R\\+D2'"),
        ({"tasks": ("R+D", "r+d")}, ArgumentError, "`tasks`: expected at least one, each once"),
        ({"seeds": (1, 1)}, ArgumentError, "`seeds`: expected at least one, each once"),
        ({"seeds": 0}, ArgumentError, "`seeds`: expected a whole number ≥ 1"),
        ({"seeds": ()}, ArgumentError, "`seeds`: expected at least one"),
        ({"steps": {"Bal1D": 3}}, UnknownNameError, "did you mean 'Ball1D'"),
    ],
)
def test_bad_grids_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        Grid(**{"tasks": ("R+D",), "methods": ("SAC",), **settings})


def test_bad_files_are_refused(tmp_path, capsys):
    file = tmp_path / "grid.toml"
    file.write_text("task = ['R+D']")
    with pytest.raises(UnknownNameError, match="did you mean 'tasks'"):
        Grid.read(file)
    file.write_text("tasks = [")
    with pytest.raises(StoreError, match="is not TOML"):
        Grid.read(file)
    assert main(["suite", str(tmp_path / "none.toml")]) == 2
    assert main(["suite", "--methods", "SAC"]) == 2
    assert main(["watch", str(tmp_path)]) == 2
    with pytest.raises(ArgumentError, match="`workers`: expected a whole number ≥ 1, got 0"):
        Local(0)
    said = capsys.readouterr().err
    assert "cannot be read" in said
    assert "`tasks`: expected at least one name" in said
    assert "`runs`: expected folders with runs" in said


# Shells start what runs in the background deaf to interrupts.
LISTENING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from cvflows.cli import main
sys.exit(main())
"""


def tables(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.csv") if path.name != "timing.csv"}


@pytest.mark.thorough
def test_a_suite_goes_on_after_an_interrupt_and_past_failures(tmp_path, capsys):
    (tmp_path / "grid.toml").write_text(GRID)
    command = ["suite", str(tmp_path / "grid.toml"), "--workers", "1", "--out"]
    assert main([*command, str(tmp_path / "whole")]) == 0

    out = tmp_path / "broken"
    going = out / "R+L2" / "SAC+CVFlow" / "3"
    process = subprocess.Popen([sys.executable, "-c", LISTENING, *command, str(out)])
    while not (going / "checkpoint.json").exists():
        assert process.poll() is None
        time.sleep(0.05)
    assert RunFolder(going).is_locked()
    assert read_status(going).state == "running"
    with pytest.raises(StoreError, match="is being trained by another process"), RunFolder(going).locked():
        pass
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert not RunFolder(going).is_locked()

    spoilt = out / "R+L2" / "DPre+" / "3"
    spoilt.mkdir(parents=True, exist_ok=True)
    (spoilt / "config.json").write_text('{"form')
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main([*command, str(out), "--json"])
    assert left.value.code == 1
    figures = json.loads(capsys.readouterr().out)
    assert figures["states"] == {"complete": 1, "failed": 1}
    assert "is not JSON, is it truncated" in figures["failures"]["R+L2 DPre+ 3"]
    assert tables(going) == tables(tmp_path / "whole" / "R+L2" / "SAC+CVFlow" / "3")

    (spoilt / "config.json").unlink()
    before = (going / "final.json").stat().st_mtime_ns
    assert main([*command, str(out)]) == 0
    assert (going / "final.json").stat().st_mtime_ns == before  # what is complete is left alone
    assert tables(spoilt) == tables(tmp_path / "whole" / "R+L2" / "DPre+" / "3")
    with pytest.raises(SystemExit):  # the same folder, other settings
        main([*command, str(out), "--steps", "700", "--json"])
    assert "holds a run with other settings" in capsys.readouterr().out

    assert len(find_runs([out])) == 2
    assert main(["watch", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["states"] == {"complete": 2}


def test_half_written_folders_are_read(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.json").write_text("")
    assert read_status(folder).state == "unreadable"
    assert "is it truncated" in read_status(folder).problem
