"""A step at which there is nothing to count is counted on a short way: with the same result as on the long one."""

import numpy as np
import pytest

import cvflows as cv
from cvflows.agents.problem import Acted
from cvflows.constraints.guard import Verdict
from cvflows.runs.acting import TaskGuard
from cvflows.runs.tally import Asked, Episode

ALLOWED, OUTSIDE = [0.1, 0.1], [0.9, 0.9]


def acted(action, **changes):
    one = np.zeros(1, np.float32)
    parts = {"largest": one - 0.1, "asked": one - 0.1, "violation": one, "kasaura": one, "flowpg": one, **changes}
    return Acted(latent=np.zeros((1, 2), np.float32), action=np.array([action], np.float32), **parts)


@pytest.mark.parametrize(
    ("action", "changes", "spotless"),
    [
        (ALLOWED, {}, True),
        (OUTSIDE, {}, False),
        (ALLOWED, {"kasaura": np.ones(1)}, False),
        (ALLOWED, {"flowpg": np.ones(1)}, False),
        (ALLOWED, {"asked": np.array([0.5]), "violation": np.array([0.5])}, False),
    ],
    ids=["allowed", "forbidden", "by one paper's tolerance", "by the other's", "corrected before"],
)
def test_both_ways_count_the_same(action, changes, spotless):
    task = cv.task("R+L2")
    guard = TaskGuard(task)
    chosen = guard(np.zeros((1, task.observation_dim)), acted(action, **changes))
    assert chosen.spotless == [spotless]
    short, long = Episode(), Episode()
    chosen.record(short, 0, 2.0)
    chosen._replace(spotless=[False]).record(long, 0, 2.0)
    assert short == long
    assert (short.length, short.reward) == (1, 2.0)
    assert bool(short.violations or short.kasaura or short.flowpg or short.violation) != spotless


def test_a_row_within_the_tolerance_is_not_spotless():
    verdict = Verdict(np.zeros(2, np.float32), 0, False, 5e-7, 5e-7, 0.0)
    assert not verdict.spotless
    episode = Episode()
    episode.add(1.0, verdict, Asked(False, 5e-7))
    assert episode.violation == 5e-7
