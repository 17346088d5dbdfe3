"""Trying an environment with random actions: what a learned signal and an observed p_S are made from."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import numpy as np

from cvflows.constraints.learned import Transitions
from cvflows.errors import FaultyEnvironmentError

Tick = Callable[[int], None]
ACTIONS = 2
"""Sets random actions apart from an environment's own draws: the same seed would give both the same numbers."""


def collect(
    env: gymnasium.Env[np.ndarray, np.ndarray],
    *,
    episodes: int | None = None,
    steps: int = 100_000,
    seed: int = 0,
    tick: Tick | None = None,
) -> Transitions:
    """Transitions of uniformly random actions, over `episodes` or until `steps` were taken.

    `tick` is told the steps so far, now and then.
    """
    rng = np.random.default_rng([seed, ACTIONS])
    low, high = env.action_space.low, env.action_space.high  # type: ignore[attr-defined]
    before: list[np.ndarray] = []
    actions: list[np.ndarray] = []
    after: list[np.ndarray] = []
    done, finished = True, -1
    observation = np.zeros(0)
    while len(before) < steps:
        if done:
            finished += 1
            if episodes is not None and finished >= episodes:
                break
            observation = checked(env.reset(seed=seed if finished == 0 else None)[0])
        action = rng.uniform(low, high).astype(np.float32)
        following, _, terminated, truncated, _ = env.step(action)
        before.append(observation)
        actions.append(action)
        after.append(checked(following))
        observation, done = after[-1], terminated or truncated
        if tick is not None and len(before) % 256 == 0:
            tick(len(before))
    return Transitions(np.array(before), np.array(actions), np.array(after))


def checked(observation: np.ndarray) -> np.ndarray:
    """A copy of the observation, or an error that says which entries are not numbers.

    A copy, because some environments return the same array at every step and write to it.
    """
    if not np.isfinite(observation).all():
        wrong = np.flatnonzero(~np.isfinite(observation)).tolist()
        raise FaultyEnvironmentError(f"the environment returned NaN or infinity in observation entries {wrong}")
    return np.array(observation)
