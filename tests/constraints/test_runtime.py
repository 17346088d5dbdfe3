"""Compiled code that processes share is whole."""

import pathlib
from unittest.mock import patch

import pytest
from jax._src import compilation_cache

from cvflows.constraints.runtime import keep_compiled_code_whole


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
