"""The linear maximiser: feasible, and never beaten."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import CASES, CONVEX, SETS, each
from cvflows.constraints.reference import ReferenceSolver

pytestmark = pytest.mark.optimised
BATCH = 128


@each(SETS)
@settings(max_examples=10)
@given(seed=st.integers(0, 2**31 - 1))
def test_never_beaten_by_a_random_feasible_point(name, seed):
    case = CASES[name]
    x, direction = case.draw(seed, BATCH, 1.0)
    best = np.asarray(case.constraint.maximise(x, direction))
    assert np.all(np.asarray(case.constraint.violation(x, best)) == 0)
    rng = np.random.default_rng(seed)
    size = np.linalg.norm(direction, axis=1)
    value = np.sum(best * direction, axis=1)
    slack = (1e-3 if case.constraint.convex else 2e-2) * size + 1e-6
    for other in (rng.uniform(-1, 1, direction.shape), 5 * direction):
        point = np.asarray(case.constraint.projection(x, other).action)
        assert np.all(np.sum(point * direction, axis=1) <= value + slack)


@each(CONVEX)
def test_agrees_with_clarabel(name):
    case = CASES[name]
    x, direction = case.draw(3, BATCH, 1.0)
    best = np.asarray(case.constraint.maximise(x, direction))
    solver = ReferenceSolver(case.reference)
    for i in range(20, 32):
        gap = direction[i] @ (solver.maximise(x[i], direction[i]) - best[i])
        assert abs(gap) < 1e-3 * np.linalg.norm(direction[i])


def test_zero_direction_gives_a_feasible_point():
    case = CASES["H+O+S"]
    x, _ = case.draw(0, 4)
    assert np.all(np.asarray(case.constraint.contains(x, case.constraint.maximise(x, np.zeros((4, 3))))))
