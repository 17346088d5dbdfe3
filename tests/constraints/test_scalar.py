"""Rows written out as Python agree with JAX in float64, and what cannot be written is left to JAX."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import cvflows as cv
from cases import ACTION_TASKS, CASES, SETS, each
from cvflows.constraints.base import all_rows
from cvflows.constraints.precision import batch_in_double, double_precision
from cvflows.constraints.programs import COMPARISONS, ON_FLOATS
from cvflows.constraints.scalar import scalar_rows
from cvflows.constraints.writing import write


@each(SETS)
def test_agrees_with_jax(name):
    case = CASES[name]
    rows, inside = scalar_rows(case.constraint)
    x, a = case.draw(5, 32, reach=1.5)
    sizes = case.constraint.context_dim, case.constraint.action_dim
    expected = batch_in_double(lambda x, a: all_rows(case.constraint, x, a), *sizes)(x, a)
    found = np.array([rows(context.tolist(), action.tolist()) for context, action in zip(x, a, strict=True)])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    judged = [inside(context.tolist(), action.tolist()) for context, action in zip(x, a, strict=True)]
    assert judged == (found <= 0).all(axis=1).tolist()


def test_every_task_has_python_rows():
    assert all(scalar_rows(task.constraint) is not None for task in ACTION_TASKS.values())


@pytest.mark.parametrize(
    "g",
    [
        lambda x, a: jnp.sort(a) - 1,
        lambda x, a: jax.lax.fori_loop(0, 3, lambda _, b: b * 0.9, a) - 1,
        lambda x, a: a[jnp.argmax(x)] - 1,
        lambda x, a: jnp.sum(jnp.sin(jnp.outer(a, jnp.arange(2, 900.0)))) - 1,
        lambda x, a: jnp.sum(a) - x[0].astype(int),
        lambda x, a: a.astype(int) - 1.0,
        lambda x, a: a.astype(jnp.float16).astype(float) - 1,
        lambda x, a: a.astype(jnp.float32) - 1,
        lambda x, a: a * ((x > 0).astype(int) & 2) - 1,
        lambda x, a: a * jnp.bitwise_xor(x.astype(int), 3) - 1,
        lambda x, a: jnp.real((a + 1j) * 1j),
        lambda x, a: jnp.round(a) - 1,
        lambda x, a: jnp.where(a > 0, 1, 0) - 0.5,
        lambda x, a: a - jnp.argmax(x),
    ],
    ids=[
        *("sorting", "a loop", "a computed index", "too long", "a context cast to int", "an action cast to int"),
        *("float16", "float32", "and of integers", "xor of integers", "complex constants", "rounding"),
        *("integer branches", "an index as a number"),
    ],
)
def test_what_cannot_be_written_is_left_to_jax(g):
    assert scalar_rows(cv.Constraint(g, action_dim=2, context_dim=2)) is None


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 1e-290, -1e-290, 1e300, -1e300, 710.0, -710.0, 1e-17]


def applied(name):
    """A constraint function that applies one operation to (a, x₁, x₂), or to as many of them as it takes."""
    operation = getattr(lax, name)
    inputs = 3 if name == "clamp" else len({**ON_FLOATS, **COMPARISONS}[name].takes)

    def g(x, a):
        result = operation(*(a[0], x[0], x[1])[:inputs])
        return jnp.where(result, 1.0, -1.0) if result.dtype == bool else result

    return cv.Constraint(g, action_dim=1, context_dim=2)


@pytest.mark.parametrize("name", [*sorted({*ON_FLOATS, *COMPARISONS}), "clamp"])
def test_every_operation_means_what_jax_means(name):
    """On ordinary, extreme and special numbers: the same value, or an error after which JAX is asked."""
    constraint = applied(name)
    rows, _ = scalar_rows(constraint)
    rng = np.random.default_rng(0)
    special = np.array([*itertools.product([*SPECIAL, math.nan, math.inf, -math.inf], repeat=2)])
    tried = np.concatenate([special, rng.normal(size=(200, 2)) * 10.0 ** rng.integers(-3, 4, (200, 2))])
    tried = np.concatenate([tried, rng.permutation(tried[:, :1])], axis=1)
    with double_precision():
        expected = np.asarray(jax.jit(jax.vmap(lambda v: constraint.rows(v[1:], v[:1])))(tried))[:, 0]
    answered = 0
    for values, truth in zip(tried.tolist(), expected.tolist(), strict=True):
        try:
            found = rows(values[1:], values[:1])[0]
        except (ArithmeticError, ValueError):
            continue
        np.testing.assert_allclose(found, truth, rtol=1e-11, atol=1e-290, err_msg=f"{values}")
        answered += 1
    assert answered > 100


@pytest.mark.parametrize("name", ["and", "or", "xor", "not"])
def test_logic_means_what_jax_means(name):
    bind = getattr(lax, f"{name}_p").bind

    def g(x, a):
        return jnp.where(bind(x[0] > 0) if name == "not" else bind(x[0] > 0, a[0] > 0), a[0], -1.0) * 1.0

    constraint = cv.Constraint(g, action_dim=1, context_dim=1)
    rows, _ = scalar_rows(constraint)
    for first, second in itertools.product((-1.0, 0.0, 1.0, math.nan), repeat=2):
        with double_precision():
            expected = np.asarray(all_rows(constraint, jnp.array([first]), jnp.array([second])))
        np.testing.assert_array_equal(rows([first], [second]), expected)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_reductions_mean_what_jax_means(name):
    constraint = cv.Constraint(lambda x, a: getattr(jnp, name)(x * a) - 1, action_dim=3, context_dim=3)
    rows, _ = scalar_rows(constraint)
    rng = np.random.default_rng(1)
    for _ in range(50):
        x, a = rng.normal(size=(2, 3))
        x = np.where(rng.random(3) < 0.1, np.nan, x)
        with double_precision():
            expected = np.asarray(all_rows(constraint, jnp.asarray(x), jnp.asarray(a)))
        np.testing.assert_allclose(rows(x.tolist(), a.tolist()), expected, rtol=1e-12)


def test_a_cast_cannot_hide_a_violation():
    """At x = 1.7 the total may be 1, so that (1, 0.5) is half too much."""
    env = cv.Constraint(lambda x, a: jnp.sum(a) - x[0].astype(int), action_dim=2, context_dim=1)
    verdict = cv.Guard(env)([1.7], np.array([1.0, 0.5], np.float32))
    assert verdict.forbidden
    assert verdict.asked_violation == pytest.approx(0.5)
    assert sum(verdict.executed.tolist()) <= 1 + 1e-6


def test_products_and_branches():
    matrix = jnp.asarray([[1.0, 2.0], [3.0, -1.0]])

    def g(x, a):
        return jnp.where(x > 0, matrix @ a, jnp.minimum(a, x)) - jnp.clip(x, -0.5, 0.5)

    constraint = cv.Constraint(g, action_dim=2, context_dim=2)
    rows, _ = scalar_rows(constraint)
    for seed in range(5):
        x, a = jnp.asarray(np.random.default_rng(seed).normal(size=(2, 2)), jnp.float32)
        np.testing.assert_allclose(rows(x.tolist(), a.tolist()), all_rows(constraint, x, a), rtol=1e-5, atol=1e-6)


def test_what_is_computed_twice_is_written_once():
    def twice(x):
        return jnp.stack([jnp.sin(x[0]) * 1.0 + x[1] / 1.0, jnp.sin(x[0]) * x[1]])

    found = write(twice, x=2)
    assert [line.partition(" = ")[2] for line in found.lines] == ["sin(x[0])", "t0 + x[1]", "t0 * x[1]"]
    assert found.define("twice")([0.5, 2.0]) == [math.sin(0.5) + 2, math.sin(0.5) * 2]


def test_nan_is_not_lost():
    rows, inside = scalar_rows(cv.Constraint(lambda x, a: jnp.maximum(x * a, 0.0) - 1, action_dim=1, context_dim=1))
    assert np.isnan(rows([float("nan")], [0.5])[0])
    assert not inside([float("nan")], [0.5])
    assert np.isnan(scalar_rows(cv.Box(1, -0.5, 0.5)).rows([], [float("nan")])).all()


@pytest.mark.parametrize(
    "g",
    [
        lambda x, a: jnp.clip(a * x[0] + a[::-1] * x[1], -0.5, 0.5),
        lambda x, a: jnp.maximum(0.1, a) - jnp.minimum(x[:2], 0.2),
        lambda x, a: jnp.stack([a[0] * x[0], a[0] * x[0] - a[1] * x[1]]) / (1 + jnp.sum(a**2)),
        lambda x, a: jnp.where(x[0] > 0, a / x[0], -a * x[1] - jnp.sqrt(jnp.abs(a))),
        lambda x, a: jnp.sum(jnp.outer(a, jnp.arange(1, 400.0)) * x[0], axis=1),
    ],
    ids=["clip", "numbers on either side", "sums that are used again", "branches", "a long sum"],
)
def test_lines_within_lines_give_the_same_bits(g):
    program = write(g, x=2, a=2)
    joined, plain = program.define("joined"), program.define("plain", ieee=True)
    rng = np.random.default_rng(0)
    for x, a in zip(rng.normal(size=(50, 2)), rng.normal(size=(50, 2)), strict=True):
        np.testing.assert_array_equal(joined(x.tolist(), a.tolist()), plain(x, a))
    nan = [math.nan, 0.3]
    np.testing.assert_array_equal(joined([0.5, 0.2], nan), plain(np.array([0.5, 0.2]), np.array(nan)))
