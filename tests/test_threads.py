"""A process that is told to use one thread computes with one."""

import json
import os
import subprocess
import sys

import pytest

from cvflows.threads import variables

BUSY = """
import json, time, jax, jax.numpy as jnp
work = jax.jit(lambda x: jnp.tanh(x @ x))
x = jnp.ones((256, 256)) / 256
work(x).block_until_ready()
threads, wall, used = len(__import__("os").listdir("/proc/self/task")), time.perf_counter(), time.process_time()
while time.perf_counter() < wall + 1:
    work(x).block_until_ready()
print(json.dumps([threads, (time.process_time() - used) / (time.perf_counter() - wall)]))
"""


def run(threads):
    settings = {**os.environ, **variables(threads)}
    found = subprocess.run([sys.executable, "-c", BUSY], env=settings, capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_one_thread_keeps_one_core_busy_and_has_smaller_pools():
    (one, share), (four, _) = run(1), run(4)
    assert share < 1.1
    assert one < four


def test_flags_that_were_set_stay(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--other=1")
    assert variables(2)["XLA_FLAGS"] == "--other=1 --xla_cpu_multi_thread_eigen=true"
