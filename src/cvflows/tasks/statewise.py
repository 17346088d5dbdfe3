"""From states that must not be left to actions that are allowed: collect transitions, learn their constraint."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from cvflows.constraints.contexts import Observed
from cvflows.constraints.learned import Learned, learn
from cvflows.envs.rollout import Tick, collect
from cvflows.errors import ArgumentError
from cvflows.tasks.base import Task


class LearnedTask(NamedTuple):
    """A task whose constraint was learned, how well, and from how much."""

    task: Task
    learned: Learned
    episodes: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Figures for machines."""
        return {**self.learned.as_json(), "episodes": self.episodes, "seconds": round(self.seconds, 3)}


def learn_task(
    task: Task,
    form: str = "stopping",
    *,
    episodes: int = 1000,
    steps: int = 100_000,
    seed: int = 0,
    family: str | None = None,
    tick: Tick | None = None,
) -> LearnedTask:
    """`task` with the constraint of `form` learned from random episodes, which also give its p_S.

    At most `steps` transitions are collected. `tick` is told how many there are so far.
    """
    if task.limits is None:
        raise ArgumentError("task", "limits on states; the actions of this one are constrained directly", task.name)
    began = time.perf_counter()
    env = task.make_env()
    transitions = collect(env, episodes=episodes, steps=steps, seed=seed, tick=tick)
    env.close()
    learned = learn(transitions, task.limits, form, family=family, seed=seed)
    contexts = Observed(transitions.before.astype(np.float32))
    return LearnedTask(
        task.with_constraint(learned.constraint, contexts), learned, episodes, time.perf_counter() - began
    )
