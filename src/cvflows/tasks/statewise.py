"""From limits on states to a constraint on actions: collect transitions, learn the constraint, test it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypedDict

import jax
import numpy as np

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.contexts import Observed
from cvflows.constraints.learned import Transitions
from cvflows.constraints.learning import Learned, Signal
from cvflows.constraints.statewise import learn
from cvflows.envs.transitions import Policy, Tick, collect
from cvflows.errors import ArgumentError, UnenforceableLimitError, UnsafeLimitsWarning, dimension
from cvflows.figures import CostFigures, SignalFigures
from cvflows.tasks.base import Task
from cvflows.tasks.selftest import MOST, SelfTest, run_self_test

ROUND_STEPS = 4000
"""Guarded transitions that a round collects at most."""
ROUND_EPISODE = 50
"""Steps that one policy of a round keeps on for."""
ROUND_SEEDS = 7919
"""Sets the seeds of rounds apart."""


class LearnOptions(TypedDict, total=False):
    """Options of `learn_task`."""

    episodes: int | None
    steps: int
    seed: int
    family: str | None
    alpha: float | None
    rounds: int
    policies: Sequence[Policy]
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
            "alpha": learned.alpha,
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
    alpha: float | None = None,
    rounds: int = 1,
    policies: Sequence[Policy] = (),
    self_test: int = 20,
    allow_weak: bool = False,
    tick: Tick | None = None,
) -> LearnedTask:
    """`task` with the constraint of `form` learned from random episodes, which also give its p_S.

    **Arguments:**

    - `episodes`, `steps`: collect that many random episodes, but at most that many transitions.
    - `family`: of signal models, see `cvflows.learn`.
    - `alpha`: share of steps that may be predicted worse than the constraint allows for, see `cvflows.learn`.
    - `rounds`: after the first, each collects up to 4,000 transitions with the guard of the one before, and learns
      again from all of them. The guard is asked for random actions, for actions that push at a limit, and for those
      of `policies`, functions from an observation to an action, such as that of a trained agent.
    - `self_test`: guarded episodes per policy that test the result; there is a warning where more than 1 % of them
      leave the limits. 0 skips the test.
    - `allow_weak`: accept limits that are pushed at harder than full braking in more than 1 % of the visited states;
      by default they are refused.
    - `tick`: called with the number of transitions so far.
    """
    if task.limits is None:
        raise ArgumentError("task", "limits on states; the actions of this one are constrained directly", task.name)
    dimension("self_test", self_test, least=0)
    dimension("rounds", rounds, least=1)
    if policies and rounds == 1:
        raise ArgumentError("policies", "at least 2 rounds: the first collects random actions", f"{rounds} round")
    began = time.perf_counter()
    env = task.make_env()
    transitions = collect(env, episodes=episodes, steps=steps, seed=seed, tick=tick)
    env.close()
    learned = learn(transitions, task.limits, form, family=family, alpha=alpha, seed=seed)
    for number in range(1, rounds):
        transitions += _collect_guarded(task, learned, policies, seed=seed + ROUND_SEEDS * number, tick=tick)
        learned = learn(transitions, task.limits, form, family=family, alpha=alpha, seed=seed)
    if not allow_weak:
        _refuse_weak(learned, task.limits.names)
    found = _with_learned(task, learned, transitions)
    seconds = time.perf_counter() - began
    tested = run_self_test(found, learned, transitions.before, episodes=self_test, seed=seed) if self_test else None
    if tested is not None and tested.problem is not None:
        warnings.warn(tested.problem, UnsafeLimitsWarning, stacklevel=3)
    return LearnedTask(found, learned, episodes, seconds, tested)


def _with_learned(task: Task, learned: Learned, transitions: Transitions) -> Task:
    """The task with what was learned."""
    return task.with_constraint(_joined(task, learned), Observed(transitions.before.astype(np.float32)))


def _joined(task: Task, learned: Learned) -> AbstractConstraint:
    """What was learned, and what is given besides."""
    direct = task.direct
    return learned.constraint if direct is None else learned.constraint & direct


def _collect_guarded(
    task: Task, learned: Learned, policies: Sequence[Policy], *, seed: int, tick: Tick | None
) -> Transitions:
    """Transitions with the guard on: of random actions, of pushing at each limit, and of `policies`, taking turns."""
    assert task.limits is not None
    rng = np.random.default_rng(seed)
    signal = jax.jit(learned.constraint.model)

    def pushing(index: int) -> Policy:
        return lambda observation: np.sign(np.asarray(signal(np.asarray(observation, np.float32))[1][index]))

    def random(observation: np.ndarray) -> np.ndarray:
        return rng.uniform(-1, 1, task.action_dim)

    turns = [random, *map(pushing, range(task.limits.count)), *policies]
    choose = _taking_turns(turns, rng)
    env = task.with_constraint(_joined(task, learned), None).make_env(guard=True)
    try:
        return collect(env, steps=ROUND_STEPS, seed=seed, tick=tick, policy=lambda s: next(choose)(s))
    finally:
        env.close()


def _taking_turns(turns: Sequence[Policy], rng: np.random.Generator) -> Iterator[Policy]:
    """Each for a while, in random order."""
    while True:
        chosen = turns[int(rng.integers(len(turns)))]
        for _ in range(ROUND_EPISODE):
            yield chosen


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
