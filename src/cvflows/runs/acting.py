"""Playing environments through a learner: decode, judge, project what is forbidden, step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cvflows.agents.base import Problem
from cvflows.agents.decoding import Acted
from cvflows.constraints.base import TOLERANCE
from cvflows.constraints.project import project_samples
from cvflows.envs.rollout import checked
from cvflows.errors import CVFlowsError
from cvflows.runs.tally import Episode
from cvflows.tasks.base import Task


class LearningError(CVFlowsError, RuntimeError):
    """A learner gave something that cannot be used."""


class Guarded(NamedTuple):
    """What the environment gets, with what was asked for."""

    executed: np.ndarray
    projected: np.ndarray
    acted: Acted

    def record(self, episode: Episode, index: int, reward: float) -> None:
        """Count one step of one environment."""
        acted = self.acted
        forbidden = bool(acted.asked[index] > TOLERANCE)
        legacy = bool(acted.kasaura[index]), bool(acted.flowpg[index])
        episode.add(reward, forbidden, float(acted.violation[index]), bool(self.projected[index]), *legacy)


def make_problem(task: Task, told: int = 0) -> Problem:
    """What a learner needs to know of a task, where observations are followed by some more numbers it is `told`."""
    size = task.observation_dim
    if callable(task.reads):
        read = task.reads
        return Problem(size + told, task.constraint, lambda o: read(o[:, :size]) if told else read(o))
    indices = np.array([index for index, _ in task.reads], int)
    factors = np.array([factor for _, factor in task.reads], np.float32)
    return Problem(size + told, task.constraint, lambda o: o[:, indices] * factors[None])


def guard(task: Task, observations: np.ndarray, acted: Acted) -> Guarded:
    """Replace forbidden actions by the nearest allowed ones."""
    if not np.isfinite(acted.largest + acted.asked).all():  # a projection layer hides the NaN of its input
        raise LearningError("the policy or the constraint gave NaN: try a lower learning rate or reward scale")
    action, forbidden = acted.action, acted.largest > TOLERANCE
    if forbidden.any():
        x = np.asarray(task.context(observations), np.float32)
        allowed = np.asarray(project_samples(task.constraint, x, action).action)
        action = np.where(forbidden[:, None], allowed, action)
    return Guarded(action, forbidden, acted)


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
    envs = [make_env() for _ in range(parallel)]
    started = parallel
    now = [Episode(number=index) for index in range(parallel)]
    observations = np.stack([env.reset(seed=episode_seed(seed, index))[0] for index, env in enumerate(envs)])
    observations = observations.astype(np.float32)
    active = np.ones(parallel, bool)
    finished: list[Episode] = []
    while active.any():
        chosen = guard(task, observations, choose(observations))
        for index in np.flatnonzero(active).tolist():
            following, reward, terminated, truncated, info = envs[index].step(chosen.executed[index])
            observations[index] = checked(following)
            chosen.record(now[index], index, float(reward))
            if not (terminated or truncated):
                continue
            now[index].close(info)
            finished.append(now[index])
            if tick is not None:
                tick(len(finished))
            active[index] = started < episodes
            if active[index]:
                observations[index] = envs[index].reset(seed=episode_seed(seed, started))[0]
                now[index] = Episode(number=started)
                started += 1
    for env in envs:
        env.close()
    return sorted(finished, key=lambda episode: episode.number)
