"""The constraint language: violation, membership, intersection, and clear errors."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cvflows as cv
from cases import ACTION_TASKS, CASES, SETS, each
from cvflows.errors import ArgumentError, UnknownNameError

seeds = st.integers(0, 2**31 - 1)


def formula(name, x, a):
    """The tasks' sets written out again in numpy: (left side, bound) pairs that must satisfy left ≤ bound."""
    square = (a * a).sum()
    w, theta = x[: len(x) // 2], x[len(x) // 2 :]
    match name:
        case "R+N":
            return []
        case "R+L2" | "Ant+L2":
            return [(square, 2.0 if name == "Ant+L2" else 0.05)]
        case "R+D":
            return [(square, 0.05), (-square, -0.04)]
        case "H+D":
            return [(square, 1.5), (-square, -1.4)]
        case "R+O03" | "R+O10" | "R+O30" | "HC+O":
            return [(np.abs(x * a).sum(), {"R+O03": 0.3, "R+O10": 1.0, "R+O30": 3.0, "HC+O": 20.0}[name])]
        case "R+M" | "H+M" | "W+M":
            return [(np.maximum(x * a, 0).sum(), 1.0 if name == "R+M" else 10.0)]
        case "H+O+S" | "W+O+S":
            return [(np.abs(w * a).sum(), 10.0), ((a**2 * np.sin(theta) ** 2).sum(), 0.1)]
        case "R+T":
            both = a[0] + a[1]
            return [(a[0] ** 2 + 2 * a[0] * both * np.cos(x[0]) + both**2, 0.05)]
        case "HC+MA":
            return [(x[0] * a[0] * np.sin(x[2:5].sum()) + x[1] * a[3] * np.sin(x[5:8].sum()), 5.0)]
    raise AssertionError(name)


@each(name for name in ACTION_TASKS if not name.startswith("BSS"))
@given(seed=seeds)
def test_violation_is_the_formula_of_the_task(name, seed):
    case = CASES[name]
    x, a = case.draw(seed, 64, 1.2)
    a[:32] *= 0.2
    violation = np.asarray(case.constraint.violation(x, a))
    inside = np.asarray(case.constraint.contains(x, a))
    for i in range(len(a)):
        rows = [(left - bound) / abs(bound) for left, bound in formula(name, np.float64(x[i]), np.float64(a[i]))]
        rows += list(np.abs(np.float64(a[i])) - 1)
        assert violation[i] == pytest.approx(sum(max(row, 0) for row in rows), rel=1e-3, abs=3e-6)
        if min(abs(row) for row in rows) > 1e-5:
            assert inside[i] == (max(rows) <= 0) == (violation[i] == 0)


@pytest.mark.optimised
@each(SETS)
@given(seed=seeds)
def test_violation_is_zero_exactly_on_the_set(name, seed):
    case = CASES[name]
    x, a = case.draw(seed, 128, 1.1)
    for actions in (a, np.asarray(case.constraint.projection(x, a).action)):
        violation = np.asarray(case.constraint.violation(x, actions))
        inside = np.asarray(case.constraint.contains(x, actions))
        assert np.all(violation >= 0)
        assert np.all(inside[violation == 0])
        assert np.all(violation[~inside] > cv.TOLERANCE)


@given(seed=seeds)
def test_and_is_intersection(seed):
    first, second = cv.MaxPower(3, 10.0), cv.Ball(3, 0.7)
    x, a = CASES["H+M"].draw(seed, 256, 1.0)
    both = first & second
    np.testing.assert_array_equal(both.contains(x, a), first.contains(x, a) & second.contains(None, a))
    box = np.maximum(np.abs(a) - 1, 0).sum(axis=1)
    total = first.violation(x, a) + second.violation(None, a) - box
    np.testing.assert_allclose(both.violation(x, a), total, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal((second & first).contains(x, a), both.contains(x, a))
    assert (both & cv.Box(3)).convex
    assert not (both & cv.Shell(3, 0.1, 0.5)).convex


def test_equality_within_its_margin():
    plane = cv.Constraint(None, 2, h=lambda x, a: a[0] + a[1] - 0.5, margin=0.01, convex=True)
    assert plane.violation(None, [0.25, 0.25]) == 0
    assert plane.violation(None, [0.25, 0.255]) == 0
    assert plane.violation(None, [0.25, 0.35]) == pytest.approx(0.09, rel=1e-4)
    y = plane.project(None, [0.0, 0.0])
    assert plane.violation(None, y) == 0
    assert float(jnp.sum(y)) == pytest.approx(0.49, abs=1e-3)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: cv.Ball(2, -1.0), "radius"),
        (lambda: cv.Ball(2, float("nan")), "radius"),
        (lambda: cv.Ball(0, 1.0), "dim"),
        (lambda: cv.Shell(2, 0.5, 0.2), "inner"),
        (lambda: cv.Shell(2, 1.5, 1.6), "inner"),
        (lambda: cv.Orthoplex(3, -2.0), "bound"),
        (lambda: cv.MaxPower(3, 0.0), "bound"),
        (lambda: cv.Box(2, 0.5, 0.2), "low"),
        (lambda: cv.Box(2, -2.0, 0.2), "low"),
        (lambda: cv.Box(2, (0.0, 0.1, 0.2), 1.0), "low"),
        (lambda: cv.Sum(3, total=5.0), "total"),
        (lambda: cv.Ellipsoid([[1.0, 2.0]]), "matrix"),
        (lambda: cv.Ellipsoid([[1.0, 0.0], [0.0, -1.0]]), "matrix"),
        (lambda: cv.Ellipsoid([[1.0]], middle=(3.0,)), "middle"),
        (lambda: cv.HalfSpaces(2, 3, lambda x: (x, x), 2), "row_function"),
        (lambda: cv.Orthoplex(3, 1.0).reads((0, 1), of=6), "indices"),
        (lambda: cv.Orthoplex(2, 1.0).reads((0, 7), of=6), "indices"),
        (lambda: cv.Orthoplex(2, 1.0) & cv.Ball(3, 1.0), "&"),
        (lambda: cv.Orthoplex(2, 1.0) & cv.HalfSpaces(2, 1), "&"),
        (lambda: cv.Uniform(2, 1.0, 0.0), "low"),
        (lambda: cv.Observed(np.zeros((0, 2))), "values"),
        (lambda: cv.Constraint(None, 2), "g"),
        (lambda: cv.Constraint(lambda x, a: a[0], 2, anchor=(0.0,)), "anchor"),
        (lambda: cv.MaxPower(3, 1.0).project(np.zeros(3), np.zeros(2)), "a"),
        (lambda: cv.MaxPower(3, 1.0).project(np.zeros(2), np.zeros(3)), "x"),
        (lambda: cv.MaxPower(3, 1.0).violation(None, np.zeros(3)), "x"),
        (lambda: cv.MaxPower(3, 1.0).contains(np.zeros((4, 3)), np.zeros((5, 3))), "x"),
        (lambda: cv.Ball(2, 1.0).project(None, [float("nan"), 0.0]), "a"),
        (lambda: cv.Ball(2, 1.0).project(None, [float("inf"), 0.0]), "a"),
        (lambda: cv.Ball(2, 1.0).maximise(None, [float("nan"), 0.0]), "direction"),
        (lambda: cv.Ball(2, 1.0).project(None, 0.5), "a"),
        (lambda: cv.task("H+M").context(np.zeros(5)), "observation"),
    ],
)
def test_bad_arguments_are_named(make, argument):
    with pytest.raises(ArgumentError, match=f"^`{argument}`: expected .*, got "):
        make()


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'Orthoplex'"):
        cv.make_set("ortoplex", dim=2, bound=1.0)
    with pytest.raises(UnknownNameError, match="did you mean 'W\\+O\\+S'"):
        cv.task("W+OS")
    assert cv.make_set("ball", dim=2, radius=1.0) == cv.Ball(2, 1.0)


def test_sets_are_values():
    assert cv.Orthoplex(3, 10) == cv.Orthoplex(3, 10.0)
    assert hash(cv.Ellipsoid(np.eye(2))) == hash(cv.Ellipsoid([[1, 0], [0, 1]]))
    assert "bound=10.0" in repr(cv.Orthoplex(3, 10))
