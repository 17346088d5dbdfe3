"""-q, -v and the loggers of the package: a user of the library decides what is said."""

import logging
import subprocess
import sys

import pytest

from cvflows.cli import main
from cvflows.commands.verbosity import split, spoken
from cvflows.terminal import count_progress, print_lines

LIBRARY = """
import contextlib, io, warnings
out, err = io.StringIO(), io.StringIO()
with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
    import cvflows as cv
    map_ = cv.make_map("ray", cv.Ball(2, 0.5), cv.Uniform(0, -1, 1))
    agent = cv.Agent("PPO+CVFlow", "R+L2", map_=map_, num_envs=2, rollout=16, hidden=(8,))
    agent.learn(32, progress=False)
    agent.evaluate(1)
assert (out.getvalue(), err.getvalue()) == ("", ""), (out.getvalue(), err.getvalue())
"""


@pytest.mark.parametrize(
    ("given", "rest", "verbosity"),
    [
        (["tasks"], ["tasks"], 0),
        (["-q", "tasks"], ["tasks"], -1),
        (["fit", "R+L2", "--quiet"], ["fit", "R+L2"], -1),
        (["fit", "-v", "R+L2", "--verbose"], ["fit", "R+L2"], 2),
        (["-vv", "-v", "tasks"], ["tasks"], 2),
    ],
)
def test_options_stand_anywhere(given, rest, verbosity):
    assert split(given) == (rest, verbosity)


def test_quiet_hides_bars_and_notes_and_keeps_results(capsys):
    for verbosity, shown in ((0, True), (-1, False)):
        with spoken(verbosity):
            with count_progress("counting", 3) as count:
                count(2)
            print_lines(["the result"], ["a note"])
        said = capsys.readouterr()
        assert said.out == "the result\n"
        assert ("a note" in said.err) == shown


def test_loggers_are_set_back():
    logger, progress = logging.getLogger("cvflows"), logging.getLogger("cvflows.progress")
    before = (logger.level, progress.level, list(logger.handlers))
    for verbosity in (-1, 1, 2):
        with spoken(verbosity):
            assert (logger.level, progress.level) != before[:2]
        assert (logger.level, progress.level, list(logger.handlers)) == before


def test_verbose_says_what_happens(tmp_path, ball_map, capsys):
    words = ["train", "Ball1D", "--map-folder", str(ball_map), "--steps", "30", "--final-episodes", "1"]
    assert main([*words, "--set", "learning_starts=10", "--out", str(tmp_path / "run"), "--json", "-v"]) == 0
    said = capsys.readouterr().err
    assert "cvflows.runs.session: SAC+CVFlow on Ball1D, seed 0, begins in" in said
    assert "cvflows.runs.train: step 30: checkpoint in" in said


def test_the_library_prints_nothing_by_itself():
    done = subprocess.run([sys.executable, "-c", LIBRARY], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
