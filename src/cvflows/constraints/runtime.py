"""How JAX runs in processes that use cvflows. Imported by the module that everything with arrays imports first."""

from __future__ import annotations

import os
from typing import Any

import jax


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


compute_in_the_calling_thread()
keep_compiled_code_whole()
