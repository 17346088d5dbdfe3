"""Suites: grids that are checked, runs that go on, failures that stop nothing."""

import json
import signal
import subprocess
import sys
import time

import pytest
from benchmarks.synthetic import write_run

from cvflows.cli import main
from cvflows.errors import ArgumentError, StoreError, UnknownNameError
from cvflows.runs.grid import Grid, jobs_of
from cvflows.runs.launch import Local
from cvflows.runs.progress import find_runs, read_status
from cvflows.runs.session import begin, complete
from cvflows.runs.store import RunFolder
from cvflows.runs.worker import work
from cvflows.tasks.catalogue import task

GRID = """
tasks = ["R+L2"]
methods = ["SAC+CVFlow", "DPre+"]
seeds = [3]
steps = 2400
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
    with pytest.raises(StoreError, match="is being trained by another process"), RunFolder(going).opening():
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


def test_one_bad_run_does_not_end_a_view_of_many(tmp_path, capsys):
    for seed in range(4):
        write_run(tmp_path / str(seed), "R+D", "SAC", seed, steps=20_000, episodes=60)
    (tmp_path / "0" / "final.json").write_text('{"final": 3}')
    (tmp_path / "1" / "checkpoint.json").unlink()
    (tmp_path / "2" / "config.json").unlink()
    (tmp_path / "2" / "config.json").mkdir()
    assert main(["watch", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["states"] == {"unreadable": 3, "complete": 1}
    assert main(["watch", str(tmp_path), "--once"]) == 0


WORKERS = """
import sys, types
from pathlib import Path
from cvflows.runs import launch
from cvflows.runs.grid import Job
launch.sys = types.SimpleNamespace(executable=sys.argv[1])
jobs = [Job("run", name, Path(name), {}) for name in ("one", "two")]
try:
    launch.Local(2).run(jobs, Path("logs"), lambda job, problem: print(job.name, problem), lambda: None)
except launch.TerminatedError as stop:
    sys.exit(128 + stop.number)
"""


def worker_that(folder, does):
    script = folder / "worker"
    script.write_text(f"#!/bin/sh\necho $$ >> pids\n{does}\n")
    script.chmod(0o755)
    return [sys.executable, "-c", WORKERS, str(script)]


def is_running(pid):
    """Whether a process is alive: one that has ended may still wait for its parent to ask how."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(done.stdout.strip()) and not done.stdout.strip().startswith("Z")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.thorough)])
def test_workers_end_with_the_suite(tmp_path, number):
    process = subprocess.Popen(worker_that(tmp_path, "exec sleep 100"), cwd=tmp_path)
    pids = tmp_path / "pids"
    while not pids.exists() or pids.read_text().count("\n") < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(30) == 128 + number
    until = time.monotonic() + 20
    while any(is_running(int(pid)) for pid in pids.read_text().split()):
        assert time.monotonic() < until, "a worker outlived its suite"
        time.sleep(0.05)


def test_a_worker_that_was_killed_says_by_what(tmp_path):
    command = worker_that(tmp_path, 'mkdir first && kill -9 $$; echo "cvflows: no"; exit 2')
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    said = set(line.split(" ", 1)[1] for line in done.stdout.splitlines())
    assert said == {"killed by SIGKILL (out of memory?)", "cvflows: no"}


@pytest.mark.thorough
def test_a_run_of_a_suite_is_the_run_of_train(tmp_path):
    """With a constraint that is learned and a map that is fitted, and a seed other than theirs."""
    settings = {"hidden": (16, 16), "batch": 32, "learning_starts": 100}
    grid = Grid(("Ball1D",), ("SAC+CVFlow",), (3,), steps=300, final_episodes=2, set=settings)
    prepare, run = jobs_of(grid, tmp_path / "suite")
    work("prepare", prepare.data)
    work("run", run.data)
    (config,) = grid.configs()
    figures = complete(begin(task("Ball1D"), config, tmp_path / "alone"))
    assert figures["fingerprint"] == RunFolder(run.folder).fingerprint
    assert tables(run.folder) == tables(tmp_path / "alone")
