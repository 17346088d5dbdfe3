"""Suites: runs that go on, failures that stop nothing."""

import json
import signal
import subprocess
import sys
import time

import pytest

from cvflows.cli import main
from cvflows.errors import StoreError
from cvflows.runs.folder import RunFolder
from cvflows.runs.grid import Grid, jobs_of
from cvflows.runs.progress import find_runs, read_status
from cvflows.runs.session import begin, complete
from cvflows.runs.suite import Suite, in_order
from cvflows.runs.worker import work
from cvflows.tasks.catalogue import task
from small import tables

pytestmark = pytest.mark.usefixtures("compiled_once")
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

# Shells start what runs in the background deaf to interrupts.
LISTENING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from cvflows.cli import main
sys.exit(main())
"""


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
    assert process.wait() == 130
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


def test_a_preparation_comes_just_before_its_first_run(tmp_path):
    grid = Grid(("R+L2", "R+D"), ("SAC+CVFlow", "DPre+"), 2, steps=200)
    jobs = jobs_of([grid], tmp_path)
    runs, preparations = ([job for job in jobs if job.kind == kind] for kind in ("run", "prepare"))
    assert len(preparations) == 2
    names = [job.name for job in in_order(runs, preparations)]
    assert names[:2] == ["R+L2 shared", "R+L2 SAC+CVFlow 0"]
    assert names.index("R+D shared") == names.index("R+D SAC+CVFlow 0") - 1
    assert sorted(names) == sorted(job.name for job in jobs)
    assert in_order(runs[:2], preparations) == [preparations[0], *runs[:2]]  # what nobody needs is not prepared


def test_a_launcher_of_ones_own(tmp_path):
    """Anything that does jobs in order and says how each ended; what it leaves, another resumes."""

    class OneByOne:
        def __init__(self, most):
            self.most = most

        def run(self, jobs, logs, ended, tick):
            for job in jobs[: self.most]:
                work(job.kind, job.data)
                ended(job, None)
                tick()

    settings = {"hidden": (8, 8), "batch": 16, "learning_starts": 50}
    grid = Grid(("R+L2",), ("DDPG",), 2, steps=200, final_episodes=1, set=settings)
    first = Suite([grid], tmp_path).run(OneByOne(1))
    assert first["states"] == {"complete": 1, "waiting": 1}
    assert Suite([grid], tmp_path).run(OneByOne(9))["states"] == {"complete": 2}


@pytest.mark.thorough
def test_a_run_of_a_suite_is_the_run_of_train(tmp_path):
    """With a constraint that is learned and a map that is fitted, and a seed other than theirs."""
    settings = {"hidden": (16, 16), "batch": 32, "learning_starts": 100}
    grid = Grid(("Ball1D",), ("SAC+CVFlow",), (3,), steps=300, final_episodes=2, set=settings)
    prepare, run = jobs_of([grid], tmp_path / "suite")
    work("prepare", prepare.data)
    work("run", run.data)
    (config,) = grid.configs()
    figures = complete(begin(task("Ball1D"), config, tmp_path / "alone"))
    assert figures["fingerprint"] == RunFolder(run.folder).fingerprint
    assert tables(run.folder) == tables(tmp_path / "alone")
