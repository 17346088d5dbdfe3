"""Functions of the user's are looked into when a constraint is made: what cannot be used is explained."""

import math

import jax
import jax.numpy as jnp
import pytest

import cvflows as cv
from cvflows.errors import ConstraintFunctionError


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, a: jnp.outer(a, a), "a scalar or a vector, got shape"),
        (lambda x, a: jnp.zeros((0,)) * a[:0], "a scalar or a vector, got shape"),
        (lambda x, a: 1.0 if a[0] > 0 else a[1], "JAX can trace"),
        (lambda x, a: math.sin(a[0]), "JAX can trace"),
        (lambda x, a: jnp.sum(x), "ignores `a`"),
        (lambda x, a: jnp.sum(a) <= 1, "real values"),
        (lambda x, a: (a, a), "expected one array"),
        (lambda x: x, "JAX can trace"),
    ],
)
def test_bad_constraint_functions_are_explained(function, message):
    with pytest.raises(ConstraintFunctionError, match=message):
        cv.Constraint(function, action_dim=2, context_dim=2)


@pytest.mark.parametrize(
    "g",
    [
        lambda x, a: a[5] - 1,
        lambda x, a: a[-3] - 1,
        lambda x, a: a[0] + x[1] - 1,
        lambda x, a: a[jnp.array([0, 2])] - 1,
        lambda x, a: jnp.take(a, 2) - 1,
        lambda x, a: a.at[2].set(0.0) - 1,
        lambda x, a: jax.jit(lambda b: b[7])(a) - 1,
        lambda x, a: jax.lax.cond(x[0] > 0, lambda a: a[4], lambda a: a[0], a) - 1,
        lambda x, a: jax.lax.fori_loop(0, 2, lambda i, total: total + a[9], 0.0) - 1,
        lambda x, a: jax.vmap(lambda i: a[i])(jnp.arange(4)) - 1,
    ],
)
def test_an_index_beyond_the_action_or_the_context_is_refused(g):
    """JAX would take another entry, and constrain the wrong joint."""
    with pytest.raises(ConstraintFunctionError, match=r"expected indices within \d entries, got index -?\d"):
        cv.Constraint(g, action_dim=2, context_dim=1)


def test_rows_of_half_spaces_may_not_read_beyond_the_context_either():
    with pytest.raises(ConstraintFunctionError, match=r"`row_function`.*indices within 1 entries, got index 3"):
        cv.HalfSpaces(2, 1, lambda x: (x[3][None], jnp.ones((1, 2))), context_dim=1)


@pytest.mark.parametrize(
    "g",
    [
        lambda x, a: a[-2] - 1,
        lambda x, a: a[0:5] - 1,
        lambda x, a: a[jnp.argmax(a)] - 1,
        lambda x, a: a[::-1] - 1,
        lambda x, a: jnp.sort(a) - 1,
        lambda x, a: jax.lax.fori_loop(0, 2, lambda i, total: total + a[i], 0.0) - 1,
        lambda x, a: jnp.cumsum(jnp.roll(a, 1)) - 1,
    ],
)
def test_indices_within_the_action_are_fine(g):
    assert cv.Constraint(g, action_dim=2, context_dim=1).rows(jnp.zeros(1), jnp.zeros(2)).size
