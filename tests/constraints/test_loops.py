"""What the writer of loops writes means what JAX means; what it cannot write it refuses, and says why."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from cvflows.constraints.loops import LoopWriter
from cvflows.constraints.precision import double_precision
from cvflows.constraints.programs import from_data
from cvflows.constraints.writing import UnwritableError, write_out

TABLE = np.random.default_rng(0).normal(size=(12, 8)).astype(np.float32)


def scanned(x):
    def step(carry, entry):
        index, weight = entry
        return carry.at[index].set(carry[index] + weight * x[0]), carry[0]

    end, seen = lax.scan(step, x, (jnp.arange(3), jnp.asarray([1.0, 2.0, 3.0])))
    return jnp.concatenate([end, seen])


def backwards(x):
    return lax.scan(lambda carry, entry: (carry * entry, carry), 1.0, x, reverse=True)[1]


WRITABLE = {
    "a loop that sets entries": scanned,
    "a loop from the end": backwards,
    "a loop of fixed length": lambda x: lax.fori_loop(0, 5, lambda _, y: jnp.sin(y) + 0.1, x),
    "a running sum": lambda x: jnp.cumsum(x) + jnp.cumsum(x[::-1])[::-1],
    "where a number belongs": lambda x: jnp.asarray([10.0, 20.0, 30.0, 40.0])[
        jnp.clip(jnp.searchsorted(jnp.cumsum(jnp.exp(x)), 2.0), 0, 3)
    ][None],
    "two computed indices": lambda x: lax.dynamic_slice(
        jnp.arange(12.0).reshape(3, 4) * x[0], (jnp.where(x[0] > 0, 2, 0), jnp.where(x[1] > 0, 9, 1)), (1, 2)
    ).ravel(),
    "a product from the left": lambda x: jnp.tanh(TABLE @ jnp.concatenate([x, x, x[:2]])),
    "a product from the right": lambda x: jnp.concatenate([x, x, x, x]) @ TABLE,
    "branches": lambda x: lax.cond(x[0] > 0, lambda: x * 2, lambda: x - 1),
    "a switch": lambda x: lax.switch(
        jnp.where(x[0] > 0, 2, jnp.where(x[1] > 0, 1, 0)), [lambda: x, lambda: -x, lambda: x * x]
    ),
    "padding": lambda x: jnp.pad(x, (1, 2), constant_values=0.5),
    "a choice that is known": lambda x: jnp.where(np.array([True, False, True]), x, x * 3),
}


@pytest.mark.parametrize("name", WRITABLE)
def test_means_what_jax_means(name):
    function = WRITABLE[name]
    program = write_out(function, LoopWriter(5000), x=3)
    again = from_data(program.as_data(), {"x": 3})
    with double_precision():
        compiled = jax.jit(function)
        for seed in range(12):
            x = np.random.default_rng(seed).normal(size=3)
            expected = np.asarray(compiled(jnp.asarray(x)), float).ravel()
            np.testing.assert_allclose(program.define("loops")(x.tolist()), expected, rtol=1e-6, atol=1e-12)
            np.testing.assert_allclose(again.define("again")(x.tolist()), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: lax.while_loop(lambda y: y[0] < 3, lambda y: y + 1, x), "a loop whose length depends on its input"),
        (jnp.sort, "sorting"),
        (lambda x: x[jnp.argmax(x)][None], "an index of the largest entry"),
        (lambda x: x.astype(int).astype(float), "convert_element_type on whole numbers"),
        (lambda x: lax.fori_loop(0, 5000, lambda _, y: jnp.sin(y), x), "more than 100 operations"),
        (lambda x: (jnp.where(x > 0, 3, 1) % 2).astype(float), "on whole numbers"),
        (lambda x: jnp.sin(x.astype(jnp.float16)).astype(float), "has no form on plain numbers"),
    ],
    ids=["while", "sorting", "argmax", "a cast", "too long", "a remainder", "half precision"],
)
def test_what_cannot_be_written_says_why(function, why):
    with pytest.raises(UnwritableError, match=why):
        write_out(function, LoopWriter(100), x=3)
