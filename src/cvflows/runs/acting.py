"""Episodes with the actions of a learner: decode, check, project what is forbidden, step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from cvflows.agents.problem import Acted, Problem
from cvflows.constraints.base import TOLERANCE
from cvflows.constraints.guard import Guard, Verdict
from cvflows.envs.reading import observed, rewarded
from cvflows.envs.worlds import Env
from cvflows.errors import CVFlowsError
from cvflows.runs.tally import Asked, Episode
from cvflows.tasks.base import Task

POLICY_NAN = "the policy gave NaN: try a lower learning rate or reward scale"


class LearningError(CVFlowsError, RuntimeError):
    """A learner returned NaN or infinity."""


class Guarded(NamedTuple):
    """What the environments get (n, dim), with the guard's verdicts and what was asked for.

    `spotless`: whether nothing is to be counted of an action, by anyone's tolerance.
    """

    executed: np.ndarray
    verdicts: list[Verdict]
    acted: Acted
    spotless: list[bool]

    @property
    def projected(self) -> np.ndarray:
        """Whether each action was replaced."""
        return np.array([verdict.forbidden for verdict in self.verdicts])

    def record(self, episode: Episode, index: int, reward: float) -> None:
        """Count one step of one environment."""
        if self.spotless[index]:  # nearly every step
            episode.add_spotless(reward)
            return
        acted, verdict = self.acted, self.verdicts[index]
        legacy = bool(acted.kasaura[index]), bool(acted.flowpg[index])
        asked = Asked(verdict.forbidden, verdict.asked_violation, *legacy)
        if acted.asked[index] != acted.largest[index]:  # the method has already corrected what the policy asked for
            asked = Asked(bool(acted.asked[index] > TOLERANCE), float(acted.violation[index]), *legacy)
        episode.add(reward, verdict, asked)


def make_problem(task: Task) -> Problem:
    """What a learner needs to know of a task."""
    reads = task.reads
    if callable(reads):
        return Problem(task.observation_dim, task.constraint, lambda o: jnp.asarray(reads(o)))
    indices = np.array([index for index, _ in reads], np.int32)  # of one dtype in either precision
    factors = np.array([factor for _, factor in reads], np.float32)
    return Problem(task.observation_dim, task.constraint, lambda o: o[:, indices] * factors[None])


class TaskGuard:
    """The guard of a task's constraint, for several environments at once."""

    def __init__(self, task: Task) -> None:
        self.task, self.guard = task, Guard(task.constraint, task.on_empty)

    def __call__(self, observations: np.ndarray, acted: Acted) -> Guarded:
        """Verdicts on actions at observations (n, o), in float64 where the environment's are."""
        if not np.isfinite(acted.action).all() or np.isnan(acted.asked).any():  # a projection hides a NaN of its input
            raise LearningError(POLICY_NAN)
        contexts = self.task.context(observations).tolist()
        verdicts = [self.guard(x, action) for x, action in zip(contexts, acted.action, strict=True)]
        passed = (np.asarray(acted.asked) == acted.largest) & (np.asarray(acted.kasaura) + acted.flowpg == 0)
        spotless = [own and verdict.spotless for own, verdict in zip(passed.tolist(), verdicts, strict=True)]
        return Guarded(np.stack([verdict.executed for verdict in verdicts]), verdicts, acted, spotless)

    def alone(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """What is executed of one action (dim,) at one observation (o,)."""
        if not math.isfinite(sum(action.tolist())):
            raise LearningError(POLICY_NAN)
        return self.guard(self.task.context(observation).tolist(), action).executed


def episode_seed(*parts: int) -> int:
    """A seed for one episode, from the run's seed, what it is for, and the episode's number."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


def play(
    task: Task,
    choose: Callable[[np.ndarray], Acted],
    episodes: int,
    seed: int,
    *,
    make_env: Callable[[], Env],
    parallel: int = 8,
    tick: Callable[[int], None] | None = None,
) -> list[Episode]:
    """Whole episodes with actions from `choose(observations)`, in at most `parallel` environments at a time."""
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
            next_observation, reward, terminated, truncated, info = env.step(chosen.executed[index].copy())
            observations[index] = observed(env, next_observation, size)
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
