"""From limits on states to a constraint on actions: collect transitions, learn the constraint, test it."""

from __future__ import annotations

import time
import warnings
from typing import NamedTuple, TypedDict

import numpy as np

from cvflows.constraints.contexts import Observed
from cvflows.constraints.learned import Learned, Signal, learn
from cvflows.envs.transitions import Tick, collect
from cvflows.errors import ArgumentError, UnenforceableLimitError, UnsafeLimitsWarning, dimension
from cvflows.figures import CostFigures, SignalFigures
from cvflows.tasks.base import Task
from cvflows.tasks.selftest import MOST, SelfTest, run_self_test


class LearnOptions(TypedDict, total=False):
    """Options of `learn_task`."""

    episodes: int | None
    steps: int
    seed: int
    family: str | None
    self_test: int
    allow_weak: bool
    tick: Tick | None


class LearnedTask(NamedTuple):
    """A task whose constraint was learned, how well, from how many episodes, and whether it keeps its limits."""

    task: Task
    learned: Learned
    episodes: int | None
    seconds: float
    self_test: SelfTest | None

    def as_json(self) -> SignalFigures:
        """JSON-ready; `seconds` does not include the self-test, which has its own."""
        assert self.task.limits is not None
        learned = self.learned
        costs = [_figures(name, signal) for name, signal in zip(self.task.limits.names, learned.signals, strict=True)]
        return {
            "form": learned.constraint.form,
            "model": learned.family,
            "transitions": learned.transitions,
            "costs": costs,
            "episodes": self.episodes,
            "seconds": round(self.seconds, 3),
            "self_test": None if self.self_test is None else self.self_test.as_json(),
        }


def _figures(limit: str, signal: Signal) -> CostFigures:
    return {
        "limit": limit,
        "error": signal.error,
        "worst": signal.worst,
        "spread": signal.spread,
        "persistence": signal.persistence,
        "push": signal.push,
        "strength": signal.strength,
        "overpowered": signal.overpowered,
    }


def learn_task(
    task: Task,
    form: str = "stopping",
    *,
    episodes: int | None = 1000,
    steps: int = 100_000,
    seed: int = 0,
    family: str | None = None,
    self_test: int = 20,
    allow_weak: bool = False,
    tick: Tick | None = None,
) -> LearnedTask:
    """`task` with the constraint of `form` learned from random episodes, which also give its p_S.

    **Arguments:**

    - `episodes`, `steps`: collect that many random episodes, but at most that many transitions.
    - `family`: of signal models, see `cvflows.learn`.
    - `self_test`: guarded episodes per policy that test the result; there is a warning where more than 1 % of them
      leave the limits. 0 skips the test.
    - `allow_weak`: accept limits that are pushed at harder than full braking in more than 1 % of the visited states;
      by default they are refused.
    - `tick`: called with the number of transitions so far.
    """
    if task.limits is None:
        raise ArgumentError("task", "limits on states; the actions of this one are constrained directly", task.name)
    dimension("self_test", self_test, least=0)
    began = time.perf_counter()
    env = task.make_env()
    transitions = collect(env, episodes=episodes, steps=steps, seed=seed, tick=tick)
    env.close()
    learned = learn(transitions, task.limits, form, family=family, seed=seed)
    if not allow_weak:
        _refuse_weak(learned, task.limits.names)
    found = task.with_constraint(learned.constraint, Observed(transitions.before.astype(np.float32)))
    seconds = time.perf_counter() - began
    tested = run_self_test(found, learned, transitions.before, episodes=self_test, seed=seed) if self_test else None
    if tested is not None and tested.problem is not None:
        warnings.warn(tested.problem, UnsafeLimitsWarning, stacklevel=3)
    return LearnedTask(found, learned, episodes, seconds, tested)


def _refuse_weak(learned: Learned, names: tuple[str, ...]) -> None:
    """An error where a limit is pushed at harder than full braking in a notable share of the visited states."""
    index = int(np.argmax([signal.overpowered for signal in learned.signals]))
    signal = learned.signals[index]
    if signal.overpowered > MOST:
        raise UnenforceableLimitError(
            f"the limit {names[index]} cannot be enforced: in {signal.overpowered:.1%} of the visited states it is "
            f"pushed at harder (by up to {signal.push:.3g} per step) than full braking takes off "
            f"({signal.strength:.3g}). Limit something that actions control, make actions stronger, or accept "
            "that the limit is left at times: task.learn(allow_weak=True)"
        )
