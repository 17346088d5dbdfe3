"""Compiled code is right, and what processes share of it is whole."""

import os
import pathlib
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import compilation_cache

from cvflows.constraints.runtime import WITHOUT, avoid_wrong_sums, keep_compiled_code_whole


@pytest.mark.optimised
@pytest.mark.parametrize("count", [1_000, 16_385, 32_769, 100_000])
def test_compiled_sums_over_sums_are_right(count):
    """A matrix times a vector, squared and summed, in a large batch: jaxlib 0.10.2 has it wrong."""
    x = np.random.default_rng(0).standard_normal((count, 3)).astype(np.float32)
    compiled = jax.jit(jax.vmap(lambda row: jnp.sum((jnp.eye(3) @ row) ** 2)))(x)
    np.testing.assert_allclose(compiled, np.sum(x.astype(float) ** 2, axis=1), rtol=1e-5)


def test_a_faulty_version_of_jaxlib_is_told_to_leave_the_faulty_part_out(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--other=1")
    jnp.ones(1).block_until_ready()
    with pytest.warns(RuntimeWarning, match="computes wrong sums"):  # JAX has begun to compute
        assert not avoid_wrong_sums("0.10.2")
    monkeypatch.setattr("jax._src.xla_bridge.backends_are_initialized", lambda: False)
    assert avoid_wrong_sums("0.10.2")
    assert os.environ["XLA_FLAGS"] == f"--other=1 {WITHOUT}"
    monkeypatch.setenv("XLA_FLAGS", "")
    assert avoid_wrong_sums("0.10.1")
    assert not os.environ["XLA_FLAGS"]


def test_entries_of_the_compilation_cache_are_never_seen_half_written(tmp_path):
    assert keep_compiled_code_whole()  # a second call changes nothing
    cache = compilation_cache.LRUCache(str(tmp_path), max_size=-1)
    seen = []
    write = pathlib.Path.write_bytes

    def half(path, data):
        write(path, data[:3])
        seen.append(cache.get("key"))  # what another process finds meanwhile
        raise KeyboardInterrupt

    with patch.object(pathlib.Path, "write_bytes", half), pytest.raises(KeyboardInterrupt):
        cache.put("key", b"compiled")
    assert seen == [None]
    assert list(tmp_path.iterdir()) == []
    cache.put("key", b"compiled")
    assert cache.get("key") == b"compiled"
    cache.put("key", b"another")  # the first one stays
    assert cache.get("key") == b"compiled"


def test_a_cache_that_jax_locks_is_left_to_jax(tmp_path):
    pytest.importorskip("filelock")
    cache = compilation_cache.LRUCache(str(tmp_path), max_size=1000)
    cache.put("key", b"compiled")
    assert cache.get("key") == b"compiled"
