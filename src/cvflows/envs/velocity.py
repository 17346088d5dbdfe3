"""Robots that must not run faster than a limit: the velocity tasks of Safety-Gymnasium on Gymnasium's v5 robots.

The speed is theirs: how far the torso moved in a step, over the time that took; along x, and for Ant in the plane. A
step costs 1 where it exceeds the limit. Episodes go on. It is no entry of the robots' observations, so it is appended
to them.
"""

from __future__ import annotations

import math
from typing import NamedTuple, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from cvflows.envs.worlds import LEFT, Env, Info
from cvflows.errors import look_up, positive


class Robot(NamedTuple):
    """A robot of Gymnasium, its limit in m/s, whether that counts sideways motion too, and settings as theirs."""

    environment: str
    limit: float
    planar: bool = False
    settings: dict[str, object] = {}  # noqa: RUF012 - never written to


ROBOTS = {
    "Hopper": Robot("Hopper-v5", 0.7402),
    "Walker2d": Robot("Walker2d-v5", 2.3415),
    "HalfCheetah": Robot("HalfCheetah-v5", 3.2096),
    "Swimmer": Robot("Swimmer-v5", 0.2282),
    "Ant": Robot(
        "Ant-v5", 2.6222, planar=True, settings={"include_cfrc_ext_in_observation": False, "contact_cost_weight": 0.0}
    ),
}


class SpeedLimit(gymnasium.Wrapper[np.ndarray, np.ndarray, np.ndarray, np.ndarray]):
    """Appends the speed of the last step to the observation and counts the steps above `limit`.

    `info["speed_cost"]` is 1 for such a step, else 0. Where an episode had any, `info["ended"]` says at its end that it
    left the safe states, and `info["episode_cost"]` how many.
    """

    def __init__(self, env: Env, *, limit: float, planar: bool = False) -> None:
        super().__init__(env)
        self.limit, self.planar = positive("limit", limit), planar
        box = env.observation_space
        assert isinstance(box, spaces.Box)
        low, high = np.append(box.low, -np.inf), np.append(box.high, np.inf)
        self.observation_space = spaces.Box(low, high, dtype=np.float64)
        self._cost = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[np.ndarray, Info]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._cost = 0
        return np.append(observation, self._size(*self.env.unwrapped.data.qvel[:2])), info  # type: ignore[attr-defined]

    def step(self, action: np.ndarray) -> tuple[np.ndarray, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        speed = self._size(info["x_velocity"], info.get("y_velocity", 0.0))
        cost = int(speed > self.limit)
        self._cost += cost
        info = {**info, "speed_cost": cost}
        if terminated or truncated:
            info["episode_cost"] = self._cost
            if self._cost:
                info["ended"] = LEFT
        return np.append(observation, speed), reward, terminated, truncated, info

    def _size(self, x: float, y: float) -> float:
        return math.hypot(x, y) if self.planar else float(x)


def limited(robot: str, render_mode: str | None = None, **settings: object) -> SpeedLimit:
    """One of `ROBOTS` with its limit."""
    found = look_up("robot", robot, ROBOTS)
    env = gymnasium.make(found.environment, render_mode=render_mode, **{**found.settings, **settings})
    return SpeedLimit(env, limit=found.limit, planar=found.planar)
