"""Double precision, for what decides whether an action is executed. Everything else is computed in single precision."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun
from jaxtyping import Array


def double_precision() -> AbstractContextManager[None]:
    """While it is active, JAX traces and computes in float64."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return importlib.import_module("jax.experimental").enable_x64()  # before JAX 0.8


class Trace(NamedTuple):
    """A function's trace, and the constants that it closes over, as NumPy arrays."""

    jaxpr: Jaxpr
    constants: list[np.ndarray]


def trace_in_double(function: Callable[..., Array], *sizes: int) -> Trace:
    """The trace of a function of vectors of these sizes, in float64.

    JAX keeps the float32 copy of a float64 NumPy array that a function closes over, from its first trace, and gives it
    where the trace in float64 expects float64: so single constants are widened. Those of single precision by intent are
    converted in the trace itself.
    """
    with double_precision():
        closed = jax.make_jaxpr(function)(*(jnp.zeros(size) for size in sizes))
    constants = [np.asarray(value) for value in closed.consts]
    wide = [value.astype(np.float64) if value.dtype == np.float32 else value for value in constants]
    return Trace(closed.jaxpr, wide)


def evaluate_in_double(trace: Trace, *vectors: Array) -> Array:
    """The traced function at float64 vectors, as part of a computation that is traced in float64."""
    (value,) = jaxpr_as_fun(ClosedJaxpr(trace.jaxpr, [jnp.asarray(constant) for constant in trace.constants]))(*vectors)
    return value


def batch_in_double(function: Callable[..., Array], *sizes: int) -> Callable[..., np.ndarray]:
    """`function` of vectors, for a batch of each, compiled in float64; its constants are handed over as arguments.

    A TypeError says that the function computes in single precision by itself.
    """
    trace = trace_in_double(function, *sizes)

    def evaluate(constants: list[Array], *vectors: Array) -> Array:
        (value,) = jaxpr_as_fun(ClosedJaxpr(trace.jaxpr, constants))(*vectors)
        return value

    compiled = jax.jit(jax.vmap(evaluate, in_axes=(None, *(0 for _ in sizes))))
    with double_precision():
        jax.eval_shape(compiled, trace.constants, *(jnp.zeros((1, size)) for size in sizes))

    def run(*vectors: np.ndarray) -> np.ndarray:
        wide = (np.asarray(vector, np.float64) for vector in vectors)
        with double_precision():
            return np.asarray(compiled(trace.constants, *wide), np.float64)

    return run
