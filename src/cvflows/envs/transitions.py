"""Transitions of random actions, from which signal models and an observed p_S are made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cvflows.constraints.learned import Transitions
from cvflows.envs.reading import bounded_box
from cvflows.envs.worlds import Env
from cvflows.errors import FaultyEnvironmentError

Tick = Callable[[int], None]
Policy = Callable[[np.ndarray], np.ndarray]
ACTIONS = 2
"""Sets random actions apart from an environment's own draws: the same seed would give both the same numbers."""


def collect(
    env: Env,
    *,
    episodes: int | None = None,
    steps: int = 100_000,
    seed: int = 0,
    tick: Tick | None = None,
    policy: Policy | None = None,
) -> Transitions:
    """Transitions of uniformly random actions, over `episodes`, but at most `steps` of them.

    `tick` is called now and then with the number of steps so far. A `policy` from an observation to an action takes the
    place of random actions. Where the environment has a guard, the actions are those that it executed.
    """
    rng = np.random.default_rng([seed, ACTIONS])
    box = bounded_box(env.action_space)
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
        action = rng.uniform(box.low, box.high) if policy is None else np.asarray(policy(observation))
        action = action.astype(np.float32)
        next_observation, _, terminated, truncated, info = env.step(action)
        before.append(observation)
        actions.append(np.asarray(info.get("executed", action), np.float32))
        after.append(checked(next_observation))
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
