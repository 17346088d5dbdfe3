"""Runs to report: two tasks, two methods, three seeds."""

import pytest
from benchmarks.synthetic import write_run


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    for task in ("R+D", "Space-Arena"):
        for method in ("SAC+CVFlow", "DPre+"):
            for seed in range(3):
                write_run(out / task / method / str(seed), task, method, seed, steps=20_000, episodes=60)
    return out
