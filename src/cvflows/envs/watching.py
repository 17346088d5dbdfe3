"""Watch: counts the steps that leave the limits of a task, in environments that know nothing of them."""

from __future__ import annotations

from typing import SupportsFloat

import gymnasium
import numpy as np

from cvflows.constraints.ranges import Limits
from cvflows.envs.worlds import LEFT, Env, Info

OWN = 40_961
"""Sets its random numbers apart from the environment's."""


class Watch(gymnasium.Wrapper[np.ndarray, np.ndarray, np.ndarray, np.ndarray]):
    """`info["limit_cost"]` is 1 for a step to a state outside the limits, else 0.

    At the end of an episode, `info["episode_cost"]` is their number, and `info["ended"]` says that the safe states were
    left, where there were any. `ending` is the probability with which such a step ends the episode: an agent that
    learns so loses what would have followed.
    """

    def __init__(self, env: Env, limits: Limits, ending: float = 0.0) -> None:
        super().__init__(env)
        self.limits, self.ending = limits, ending
        self._cost, self._chance = 0, np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[np.ndarray, Info]:
        self._cost = 0
        if seed is not None:
            self._chance = np.random.default_rng([seed, OWN])
        return self.env.reset(seed=seed, options=options)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        cost = int(self.limits.passed(observation).any())
        self._cost += cost
        terminated = terminated or bool(cost and self._chance.random() < self.ending)
        info = {**info, "limit_cost": cost}
        if terminated or truncated:
            info["episode_cost"] = self._cost
            if self._cost:
                info["ended"] = LEFT
        return observation, reward, terminated, truncated, info
