"""Double precision, for what decides whether an action is executed. Everything else is computed in single precision."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager

import jax


def double_precision() -> AbstractContextManager[None]:
    """While it is active, JAX traces and computes in float64."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return importlib.import_module("jax.experimental").enable_x64()  # before JAX 0.8
