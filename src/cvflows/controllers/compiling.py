"""The C code of an artefact, compiled with warnings as errors and called from Python: for checks, tests, benchmarks."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cvflows.errors import CVFlowsError
from cvflows.files import write_atomically

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion")
DRIVER = """
#include "controller.h"

void cv_many(cv_state *state, int n, const float *obs, const double *ages, float *actions, int *statuses, int *used);
int cv_sizes(int which);

void cv_many(cv_state *state, int n, const float *obs, const double *ages, float *actions, int *statuses, int *used)
{
    int i;
    for (i = 0; i < n; i++) {
        state->now = ages[i];
        state->measured = 0.0;
        statuses[i] = (int)cv_act(state, obs + i * CV_OBS, actions + i * CV_ACT);
        used[i] = (int)state->used;
    }
}

int cv_sizes(int which)
{
    return which == 0 ? CV_OBS : which == 1 ? CV_ACT : (int)sizeof(cv_state);
}
"""
"""Many calls at once, so that the way into C is not what is measured."""


class CompilerError(CVFlowsError, RuntimeError):
    """No compiler, or one that refused a file."""


class Run(NamedTuple):
    """Of n calls: actions (n, dim), statuses and origins (n,)."""

    actions: np.ndarray
    statuses: np.ndarray
    used: np.ndarray


def compiler(name: str = "cc") -> str:
    """The path of a compiler, or an error that says what to install."""
    found = shutil.which(name)
    if found is None:
        raise CompilerError(f"no C compiler named {name} was found: install gcc or clang")
    return found


def compile_library(artefact: Path, folder: Path, flags: Sequence[str] = ("-O2",), name: str = "cc") -> Path:
    """`controller.so` in `folder`, of the C code in `artefact`."""
    driver, library = folder / "driver.c", folder / "controller.so"
    write_atomically(driver, DRIVER.encode())
    sources = [str(artefact.resolve() / "controller.c"), str(driver.resolve())]
    words = [*STRICT, *flags, "-shared", "-fPIC", "-I", str(artefact.resolve()), *sources, "-o", str(library), "-lm"]
    compile_with([compiler(name), *words])
    return library


def compile_with(command: Sequence[str]) -> None:
    """Run a compiler; what it complains of is the error."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise CompilerError(f"{command[0]} refused the code: {(done.stderr or done.stdout)[:2000]}")


class Library:
    """A compiled controller with a state of its own."""

    def __init__(self, path: Path, max_age: float = 0.0) -> None:
        self._library = ctypes.CDLL(str(path.resolve()))
        sizes: list[int] = [self._library.cv_sizes(which) for which in range(3)]
        self.observation_dim, self.action_dim, self.state_size = sizes
        self._state = ctypes.create_string_buffer(self.state_size)
        self.max_age = max_age
        self.reset()

    def reset(self) -> None:
        """An empty state."""
        self._library.cv_init(self._state)
        (ctypes.c_double * 3).from_buffer(self._state)[2] = self.max_age  # now, measured, max_age come first

    def run(self, observations: np.ndarray, ages: np.ndarray | None = None) -> Run:
        """Call after call at observations (n, o) of these ages."""
        seen = np.ascontiguousarray(observations, np.float32)
        count = len(seen)
        old = np.zeros(count) if ages is None else np.ascontiguousarray(ages, np.float64)
        actions = np.zeros((count, self.action_dim), np.float32)
        statuses, used = np.zeros(count, np.int32), np.zeros(count, np.int32)
        arrays = (array.ctypes.data_as(ctypes.c_void_p) for array in (seen, old, actions, statuses, used))
        self._library.cv_many(self._state, ctypes.c_int(count), *arrays)
        return Run(actions, statuses, used)
