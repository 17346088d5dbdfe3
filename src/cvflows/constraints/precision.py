"""Double precision, for what decides whether an action is executed. Everything else is computed in single precision."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jaxtyping import Array


def double_precision() -> AbstractContextManager[None]:
    """While it is active, JAX traces and computes in float64."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return importlib.import_module("jax.experimental").enable_x64()  # before JAX 0.8


def trace_in_double(function: Callable[..., Array], *sizes: int) -> ClosedJaxpr:
    """The trace of a function of vectors of these sizes, in float64."""
    with double_precision():
        return jax.make_jaxpr(function)(*(jnp.zeros(size) for size in sizes))


def batch_in_double(function: Callable[..., Array], *sizes: int) -> Callable[..., np.ndarray]:
    """`function` of vectors, for a batch of each, compiled in float64.

    Constants are handed over as arguments. JAX keeps the float32 copy of a float64 NumPy array that a function closes
    over, from its first trace, and uses it where the trace in float64 expects float64: so they are widened. A TypeError
    says that a function computes in single precision by itself.
    """
    closed = trace_in_double(function, *sizes)
    constants = [np.asarray(value) for value in closed.consts]
    constants = [value.astype(np.float64) if value.dtype == np.float32 else value for value in constants]

    def evaluate(constants: list[Array], *vectors: Array) -> Array:
        (value,) = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, constants))(*vectors)
        return value

    compiled = jax.jit(jax.vmap(evaluate, in_axes=(None, *(0 for _ in sizes))))
    with double_precision():
        jax.eval_shape(compiled, constants, *(jnp.zeros((1, size)) for size in sizes))

    def run(*vectors: np.ndarray) -> np.ndarray:
        with double_precision():
            return np.asarray(compiled(constants, *(np.asarray(vector, np.float64) for vector in vectors)), np.float64)

    return run
