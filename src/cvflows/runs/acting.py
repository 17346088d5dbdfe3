"""Playing environments through a learner: decode, judge, project what is forbidden, step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cvflows.agents.base import Acted, Problem
from cvflows.constraints.base import TOLERANCE
from cvflows.constraints.guard import Guard, Verdict
from cvflows.envs.reading import observed, rewarded
from cvflows.errors import CVFlowsError
from cvflows.runs.tally import Asked, Episode
from cvflows.tasks.base import Task


class LearningError(CVFlowsError, RuntimeError):
    """A learner gave something that cannot be used."""


class Guarded(NamedTuple):
    """What the environments get (n, dim), with the guard's verdicts and what was asked for."""

    executed: np.ndarray
    verdicts: list[Verdict]
    acted: Acted

    @property
    def projected(self) -> np.ndarray:
        """Whether each action was replaced."""
        return np.array([verdict.forbidden for verdict in self.verdicts])

    def record(self, episode: Episode, index: int, reward: float) -> None:
        """Count one step of one environment."""
        acted, verdict = self.acted, self.verdicts[index]
        legacy = bool(acted.kasaura[index]), bool(acted.flowpg[index])
        asked = Asked(verdict.forbidden, verdict.asked_violation, *legacy)
        if acted.asked[index] != acted.largest[index]:  # the method has already corrected what the policy asked for
            asked = Asked(bool(acted.asked[index] > TOLERANCE), float(acted.violation[index]), *legacy)
        episode.add(reward, verdict, asked)


def make_problem(task: Task) -> Problem:
    """What a learner needs to know of a task."""
    if callable(task.reads):
        return Problem(task.observation_dim, task.constraint, task.reads)
    indices = np.array([index for index, _ in task.reads], int)
    factors = np.array([factor for _, factor in task.reads], np.float32)
    return Problem(task.observation_dim, task.constraint, lambda o: o[:, indices] * factors[None])


class TaskGuard:
    """The guard of a task's constraint, for several environments at once."""

    def __init__(self, task: Task) -> None:
        self.task, self.guard = task, Guard(task.constraint, task.on_empty)

    def __call__(self, observations: np.ndarray, acted: Acted) -> Guarded:
        """Verdicts on actions at observations (n, o), float64 where the environment gave them so."""
        if not np.isfinite(acted.action).all() or np.isnan(acted.asked).any():  # a projection hides a NaN of its input
            raise LearningError("the policy gave NaN: try a lower learning rate or reward scale")
        contexts = self.task.context(observations).tolist()
        verdicts = [self.guard(x, action) for x, action in zip(contexts, acted.action, strict=True)]
        return Guarded(np.stack([verdict.executed for verdict in verdicts]), verdicts, acted)


def episode_seed(*numbers: int) -> int:
    """A seed for one episode, from the run's seed and the episode's numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def play(
    task: Task,
    choose: Callable[[np.ndarray], Acted],
    episodes: int,
    seed: int,
    *,
    make_env: Callable[[], Any],
    parallel: int = 8,
    tick: Callable[[int], None] | None = None,
) -> list[Episode]:
    """Whole episodes with actions from `choose(observations)`, some environments side by side."""
    parallel = min(parallel, episodes)
    envs, guard, size = [make_env() for _ in range(parallel)], TaskGuard(task), task.observation_dim
    started = parallel
    now = [Episode(number=index) for index in range(parallel)]
    first = [env.reset(seed=episode_seed(seed, index))[0] for index, env in enumerate(envs)]
    observations = np.stack([observed(env, seen, size) for env, seen in zip(envs, first, strict=True)])
    active = np.ones(parallel, bool)
    finished: list[Episode] = []
    while active.any():
        chosen = guard(observations, choose(observations.astype(np.float32)))
        for index in np.flatnonzero(active).tolist():
            env = envs[index]
            following, reward, terminated, truncated, info = env.step(chosen.executed[index].copy())
            observations[index] = observed(env, following, size)
            chosen.record(now[index], index, rewarded(env, reward))
            if not (terminated or truncated):
                continue
            now[index].close(info)
            finished.append(now[index])
            if tick is not None:
                tick(len(finished))
            active[index] = started < episodes
            if active[index]:
                observations[index] = observed(env, env.reset(seed=episode_seed(seed, started))[0], size)
                now[index] = Episode(number=started)
                started += 1
    for env in envs:
        env.close()
    return sorted(finished, key=lambda episode: episode.number)
