"""Rows written out as Python agree with JAX, and what cannot be written is left to JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cases import ACTION_TASKS, CASES, SETS, each
from cvflows.constraints.base import all_rows
from cvflows.constraints.hosted import hosted


@each(SETS)
def test_agrees_with_jax(name):
    case = CASES[name]
    rows, inside = hosted(case.constraint)
    x, a = case.draw(5, 32, reach=1.5)
    expected = np.asarray(jax.jit(jax.vmap(lambda x, a: all_rows(case.constraint, x, a)))(x, a))
    found = np.array([rows(context.tolist(), action.tolist()) for context, action in zip(x, a, strict=True)])
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    judged = [inside(context.tolist(), action.tolist()) for context, action in zip(x, a, strict=True)]
    assert judged == (found <= 0).all(axis=1).tolist()


def test_every_task_has_python_rows():
    assert all(hosted(task.constraint) is not None for task in ACTION_TASKS.values())


@pytest.mark.parametrize(
    "g",
    [
        lambda x, a: jnp.sort(a) - 1,
        lambda x, a: jax.lax.fori_loop(0, 3, lambda _, b: b * 0.9, a) - 1,
        lambda x, a: a[jnp.argmax(x)] - 1,
        lambda x, a: jnp.sum(jnp.sin(jnp.outer(a, jnp.arange(300.0)))) - 1,
    ],
    ids=["sorting", "a loop", "a computed index", "too long"],
)
def test_what_cannot_be_written_is_left_to_jax(g):
    assert hosted(cv.Constraint(g, action_dim=2, context_dim=2)) is None


def test_products_and_branches():
    matrix = jnp.asarray([[1.0, 2.0], [3.0, -1.0]])

    def g(x, a):
        return jnp.where(x > 0, matrix @ a, jnp.minimum(a, x)) - jnp.clip(x, -0.5, 0.5)

    constraint = cv.Constraint(g, action_dim=2, context_dim=2)
    rows, _ = hosted(constraint)
    for seed in range(5):
        x, a = jnp.asarray(np.random.default_rng(seed).normal(size=(2, 2)), jnp.float32)
        np.testing.assert_allclose(rows(x.tolist(), a.tolist()), all_rows(constraint, x, a), rtol=1e-5, atol=1e-6)


def test_nan_is_not_lost():
    rows, inside = hosted(cv.Constraint(lambda x, a: jnp.maximum(x * a, 0.0) - 1, action_dim=1, context_dim=1))
    assert np.isnan(rows([float("nan")], [0.5])[0])
    assert not inside([float("nan")], [0.5])
    assert np.isnan(hosted(cv.Box(1, -0.5, 0.5)).rows([], [float("nan")])).all()
