"""Processes of a suite: they end with it, and say by what they were killed."""

import signal
import subprocess
import sys
import time

import pytest

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
    assert process.wait() == 128 + number
    assert not any(is_running(int(pid)) for pid in pids.read_text().split())


def test_a_worker_that_was_killed_says_by_what(tmp_path):
    command = worker_that(tmp_path, 'mkdir first && kill -9 $$; echo "cvflows: no"; exit 2')
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    said = set(line.split(" ", 1)[1] for line in done.stdout.splitlines())
    assert said == {"killed by SIGKILL (out of memory?)", "cvflows: no"}
