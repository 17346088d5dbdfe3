"""When other papers call an action forbidden."""

import pytest

import cvflows as cv


def test_tolerances_of_the_literature():
    units, limits = cv.task("R+L2").constraint.legacy_rows()
    assert units == pytest.approx([0.05])
    assert limits == pytest.approx([(0.05**0.5 + 0.001) ** 2 - 0.05])
    units, limits = cv.task("H+O+S").constraint.legacy_rows()
    assert units.tolist() == [10.0, 0.1]
    assert limits.tolist() == [0.1, 0.01]
