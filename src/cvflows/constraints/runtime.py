"""How JAX runs in processes that use cvflows. Imported by the module that everything with arrays imports first."""

from __future__ import annotations

import os
import warnings
from importlib.metadata import version
from typing import Any

import jax

WRONG_SUMS = ("0.10.2",)
"""Versions of jaxlib that compile sums over sums wrongly for the CPU, in large batches (jax issue 39103)."""
WITHOUT = "--xla_cpu_experimental_ynn_fusion_type="
"""XLA's flag that leaves the faulty part out."""


def avoid_wrong_sums(installed: str) -> bool:
    """Leave out the part of jaxlib that is known to compute wrong numbers; returns whether that was possible.

    `installed`: its version. It must be said before the first computation; where it is too late, a warning says what
    to do.
    """
    if installed not in WRONG_SUMS:
        return True
    flags = os.environ.get("XLA_FLAGS", "")
    if WITHOUT.rstrip("=") in flags:
        return True
    if _has_computed():
        warnings.warn(
            f"jaxlib {installed} computes wrong sums on the CPU, and JAX has begun to compute: import cvflows "
            f"first, set XLA_FLAGS={WITHOUT}, or install another version of jax",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    os.environ["XLA_FLAGS"] = f"{flags} {WITHOUT}".strip()
    return True


def _has_computed() -> bool:
    """Whether JAX has read its flags; a version that cannot tell is taken to have."""
    try:
        from jax._src import xla_bridge
    except ImportError:
        return True
    return bool(getattr(xla_bridge, "backends_are_initialized", lambda: True)())


def compute_in_the_calling_thread() -> None:
    """On the CPU, handing a decision of 60 µs to another thread and waiting for it takes 80 more.

    It must be said before the first computation.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def keep_compiled_code_whole() -> bool:
    """Entries of JAX's cache of compiled code appear whole or not at all; returns whether that could be arranged.

    JAX writes an entry in place: another process may read half of it, and one that is killed leaves half of it for
    good. Here it is written beside its place and renamed. JAX has no public hook for it, so a version whose cache is
    made otherwise keeps its own behaviour.
    """
    try:
        from jax._src import compilation_cache
        from jax._src.lru_cache import LRUCache
    except ImportError:
        return False
    if getattr(compilation_cache, "LRUCache", None) is not LRUCache:
        return getattr(getattr(compilation_cache, "LRUCache", None), "writes_whole_entries", False)

    class WholeEntries(LRUCache):
        writes_whole_entries = True

        def put(self, key: str, *value: Any, **named: Any) -> None:
            final = self.path / f"{key}-cache"
            if self.eviction_enabled or not key or final.exists():  # with eviction JAX locks the folder
                super().put(key, *value, **named)
                return
            (entry,) = (*value, *named.values())
            beside = self.path / f"{key}.{os.getpid()}"
            try:
                beside.write_bytes(entry)
                beside.replace(final)
            finally:
                beside.unlink(missing_ok=True)

    vars(compilation_cache)["LRUCache"] = WholeEntries
    return True


avoid_wrong_sums(version("jaxlib"))
compute_in_the_calling_thread()
keep_compiled_code_whole()
