"""Shapes and types are checked at run time, in float32, with no silent broadcasting of ranks; cases are random.

A property that fails prints the example and a `@reproduce_failure` line that repeats it.
"""

import os
import zlib

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

from jaxtyping import install_import_hook

install_import_hook("cvflows", "typecheck.checked")

import hypothesis
import jax
import pytest

import cvflows.constraints.runtime  # noqa: F401 - processes of the tests share compiled code

jax.config.update("jax_numpy_rank_promotion", "raise")
# Where many wait for one answer, what passed once passes again; everybody else tries new cases.
drawn = {"derandomize": True, "database": None} if "CI" in os.environ else {"derandomize": False}
hypothesis.settings.register_profile("cvflows", max_examples=20, deadline=None, print_blob=True, **drawn)
hypothesis.settings.load_profile("cvflows")


def pytest_addoption(parser):
    parser.addoption("--part", default="0/1", help="K/N: the K-th of N parts of the tests, K from 0")


def pytest_collection_modifyitems(config, items):
    """Keep the tests of one part: which part a test is in depends on its name alone."""
    part, parts = map(int, config.getoption("--part").split("/"))
    left = [item for item in items if zlib.crc32(item.nodeid.encode()) % parts != part]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def ball():
    """Ball1D with its constraint learned."""
    import cvflows as cv

    return cv.task("Ball1D").learn(episodes=100, self_test=0).task


@pytest.fixture(scope="session")
def ball_map(ball, tmp_path_factory):
    """A folder with a map of its set that needs no fit."""
    import cvflows as cv

    map_ = cv.make_map("gauge", ball.constraint, ball.contexts, splines=False)
    return cv.save_map(map_, tmp_path_factory.mktemp("map"))


@pytest.fixture(scope="module")
def compiled_once():
    """Runs of equal settings share what they compile."""
    from benchmarks import tiny

    with tiny.compiled_once():
        yield
