"""The guard: no forbidden action is executed unnoticed, whatever the set and whoever asks."""

import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cases import ACTION_TASKS, CASES
from cvflows.constraints.guard import Guard
from cvflows.constraints.judge import judge_of
from cvflows.errors import EmptySetError, FaultyEnvironmentError, NotConvexError

CONTRADICTION = cv.HalfSpaces(2, 2)  # its context holds the rows: offsets, then normals
RING = cv.Constraint(
    lambda x, a: jnp.stack([a @ a / 0.5 - 1, 1 - a @ a / 0.4]), action_dim=2, convex=True
)  # declared wrongly


def wanted(*entries):
    return np.array(entries, np.float32)


def contradicting(offset):
    """a₁ ≤ -offset and -a₁ ≤ -offset: empty for a positive offset."""
    return [offset, offset, 1.0, 0.0, -1.0, 0.0]


def test_allowed_actions_pass_and_others_are_replaced_by_the_nearest():
    guard = Guard(cv.Ball(2, 0.5))
    action = wanted(0.3, -0.2)
    assert guard([], action).executed is action
    verdict = guard([], wanted(0.6, 0.8))
    np.testing.assert_allclose(verdict.executed, [0.3, 0.4], atol=1e-5)
    assert (verdict.forbidden, verdict.outcome) == (True, cv.Outcome.EXACT)
    assert verdict.asked_violation == pytest.approx(3.0)
    assert verdict.executed_violation <= 1e-6
    assert verdict.distance == pytest.approx(0.5, abs=1e-5)


def test_an_empty_set_of_the_user_is_an_error_with_its_context():
    with pytest.raises(EmptySetError, match=r"no action is allowed at context \(0\.25, 0\.25, 1, 0, -1, 0\)"):
        Guard(CONTRADICTION)(contradicting(0.25), wanted(0.5, 0.5))
    assert not Guard(CONTRADICTION)(contradicting(-0.25), wanted(0.1, 0.5)).forbidden


@pytest.mark.parametrize(
    ("on_empty", "executed"),
    [
        pytest.param("least", None, id="least"),
        pytest.param([0.0, -1.0], [0.0, -1.0], id="an action"),
        pytest.param(lambda x: -x[2:4], [-1.0, 0.0], id="a function"),
    ],
)
def test_what_is_executed_on_an_empty_set_is_said(on_empty, executed):
    verdict = Guard(CONTRADICTION, on_empty)(contradicting(0.25), wanted(0.5, 0.5))
    assert verdict.outcome == cv.Outcome.EMPTY
    assert verdict.executed_forbidden
    expected = judge_of(CONTRADICTION)(contradicting(0.25), verdict.executed.tolist())[1]
    assert verdict.executed_violation == expected > 0
    if executed is None:
        assert max(judge_of(CONTRADICTION).rows(contradicting(0.25), verdict.executed.tolist())) < 0.26
    else:
        np.testing.assert_array_equal(verdict.executed, np.float32(executed))


class Learned(cv.HalfSpaces):
    """Half-spaces that say they were learned."""

    learned = True


def test_learned_sets_execute_the_least_violating_action_and_count_it():
    ship = CASES["learned ship"].constraint
    assert [one.learned for one in (ship, ship & cv.Ball(2, 0.5), cv.Ball(2, 0.5))] == [True, True, False]
    verdict = Guard(Learned(2, 2))(contradicting(0.25), wanted(0.5, 0.5))
    assert (verdict.outcome, verdict.executed_forbidden) == (cv.Outcome.EMPTY, True)


@pytest.mark.parametrize("bad", ["lest", [0.0], [2.0, 0.0], [np.nan, 0.0], "raise "])
def test_bad_fallbacks_are_refused(bad):
    with pytest.raises(ValueError, match="`on_empty`"):
        Guard(cv.Ball(2, 0.5), bad)


def test_random_contradictions_never_pass_unnoticed():
    """Half-spaces of random offsets, many of them empty."""
    rng, guard = np.random.default_rng(0), Guard(cv.HalfSpaces(2, 4), "least")
    empty = 0
    for _ in range(200):
        x = [*rng.normal(0.2, 0.5, 4), *rng.normal(size=8)]
        verdict = guard(x, rng.uniform(-1, 1, 2).astype(np.float32))
        truth = max(judge_of(guard.constraint).rows(x, verdict.executed.tolist()))
        assert (truth > 1e-6) == verdict.executed_forbidden
        empty += verdict.outcome == cv.Outcome.EMPTY
    assert 20 < empty < 180


def test_a_set_declared_convex_that_is_not_is_named():
    with pytest.raises(NotConvexError, match=r"declared `convex=True` and is not.*Declare `convex=False`"):
        Guard(RING)([], wanted(0.9, 0.1))


def test_thin_sets_declared_convex_are_found_out_when_a_projection_fails():
    """Random actions hardly ever hit this circle: it is found out where the solver lands outside, or lands allowed."""
    circle = cv.Constraint(lambda x, a: jnp.abs(a @ a - 0.25) - 1e-3, action_dim=2, convex=True)
    guard, accused = Guard(circle), 0
    guard.calls = 2  # the third call does not look at convexity of itself
    for angle in np.linspace(0, 6, 7):
        try:
            verdict = guard([], np.float32([0.01 * np.cos(angle), 0.01 * np.sin(angle)]))
        except NotConvexError:
            accused += 1
        else:
            assert verdict.executed_violation <= 1e-6
        guard.calls = 2
    assert accused


@pytest.mark.thorough
def test_convex_sets_are_not_accused():
    rng = np.random.default_rng(1)
    for name in ("user power", "user power and ball"):
        case = CASES[name]
        x, a = case.draw(3, 40, reach=1.0)
        guard = Guard(case.constraint)
        for context, action in zip(x.tolist(), a, strict=True):
            guard.calls = 2 ** int(rng.integers(1, 9)) - 1  # look at convexity every time
            assert guard(context, action).executed_violation <= 1e-6


@pytest.mark.parametrize("name", ["H+O+S", "R+D", pytest.param("user power and ball", marks=pytest.mark.thorough)])
def test_a_batch_gets_the_same_verdicts(name):
    case = CASES[name]
    x, a = case.draw(2, 37, reach=1.0)
    together = Guard(case.constraint).batch(x, a)
    for context, action, verdict in zip(x, a, together, strict=True):
        alone = Guard(case.constraint)(context.tolist(), action)
        assert (alone.forbidden, alone.outcome) == (verdict.forbidden, verdict.outcome)
        np.testing.assert_allclose(alone.executed, verdict.executed, atol=1e-4)
    assert Guard(case.constraint).batch(x[:0], a[:0]) == []
    with pytest.raises(ValueError, match="`x`: expected shape"):
        Guard(case.constraint).batch(x[:3], a)


@pytest.mark.parametrize(
    "action",
    [
        pytest.param([10**400, 0], id="an integer beyond all floats"),
        pytest.param([1e300, 0], id="beyond single precision"),
        pytest.param([0.5 + 1j, 0], id="complex"),
        pytest.param(["0.5", "0"], id="text"),
        pytest.param("0.5", id="one text"),
        pytest.param(np.ma.masked_array([0.1, 0.2], [True, False]), id="masked"),
        pytest.param([True, False], id="truth values"),
        pytest.param([None, 0], id="nothing"),
        pytest.param([[0.1], [0.2, 0.3]], id="ragged"),
        pytest.param(np.array(["2026-01-01", "2026-01-02"], "M8"), id="dates"),
    ],
)
def test_what_is_no_action_is_refused_by_name(action):
    disc = cv.Ball(2, 0.5)
    for call in (Guard(disc).__call__, disc.violation, disc.contains, disc.project):
        with pytest.raises(ValueError, match=r"`(a|action)`: expected"):
            call([] if call.__name__ == "__call__" else None, action)


@pytest.mark.parametrize("order", [lambda a: a, jnp.sort], ids=["written", "left to JAX"])
def test_functions_that_close_over_float64_arrays_are_judged(order):
    """JAX keeps their float32 copies."""
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    constraint = cv.Constraint(lambda x, a: order(a) * weights - 0.15 * x, action_dim=4, context_dim=1, convex=True)
    assert float(constraint.violation([1.0], np.ones(4))) > 0  # traced in float32 first
    verdict = Guard(constraint)([1.0], wanted(0.9, 0.9, 0.9, 0.9))
    assert verdict.forbidden
    assert verdict.executed_violation <= 4e-6


def test_nan_names_what_is_wrong():
    broken = cv.Constraint(lambda x, a: jnp.sqrt(x[0]) + a[0] - 1, action_dim=1, context_dim=1)
    with pytest.raises(FaultyEnvironmentError, match=r"the constraint is NaN at context \[-1\.0\]"):
        Guard(broken)([-1.0], wanted(0.5))


@pytest.mark.optimised
@pytest.mark.parametrize("name", ["R+T", "R+O03", "H+O+S", "W+M", "HC+O", "HC+MA", "R+D", "BSS5z"])
def test_executed_actions_are_allowed_in_double_precision_far_from_the_usual_contexts(name):
    """Contexts up to ten times as large as p_S, exact only in float64."""
    task, rng = ACTION_TASKS[name], np.random.default_rng(7)
    guard = Guard(task.constraint)
    x, a = CASES[name].draw(11, 400, reach=1.0)
    scale = rng.choice([1.0, 10.0], (len(x), 1))
    contexts = x.astype(np.float64) * scale * (1 + 1e-8 * rng.normal(size=x.shape))
    for context, action in zip(contexts.tolist(), a, strict=True):
        verdict = guard(context, action)
        assert max(judge_of(task.constraint).rows(context, verdict.executed.tolist())) <= cv.TOLERANCE
        assert verdict.outcome != cv.Outcome.EMPTY
