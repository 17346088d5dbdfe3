"""Robots that must not run faster than a limit: the velocity tasks of Safety-Gymnasium on Gymnasium's v5 robots.

The speed is theirs: how far the torso moved in a step, over the time that took; along x, and for Ant in the plane. No
entry of the robots' observations says it, so it is appended to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from cvflows.envs.robots import LEAN, lean
from cvflows.envs.worlds import Env, Info
from cvflows.errors import look_up


class Robot(NamedTuple):
    """A robot of Gymnasium, whether sideways motion counts too, and settings that make it as theirs."""

    environment: str
    planar: bool = False
    settings: tuple[tuple[str, object], ...] = ()


ROBOTS = {
    "Hopper": Robot("Hopper-v5"),
    "Walker2d": Robot("Walker2d-v5"),
    "HalfCheetah": Robot("HalfCheetah-v5"),
    "Swimmer": Robot("Swimmer-v5"),
    "Ant": Robot("Ant-v5", True, (("include_cfrc_ext_in_observation", False), ("contact_cost_weight", 0.0))),
}


class Speed(gymnasium.Wrapper[np.ndarray, np.ndarray, np.ndarray, np.ndarray]):
    """Appends the speed of the last step to the observation; after a reset, that of the torso."""

    def __init__(self, env: Env, *, planar: bool = False) -> None:
        super().__init__(env)
        self.planar = planar
        box = env.observation_space
        assert isinstance(box, spaces.Box)
        self.observation_space = spaces.Box(np.append(box.low, -np.inf), np.append(box.high, np.inf), dtype=np.float64)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[np.ndarray, Info]:
        observation, info = self.env.reset(seed=seed, options=options)
        return np.append(observation, self._size(*self.env.unwrapped.data.qvel[:2])), info  # type: ignore[attr-defined]

    def step(self, action: np.ndarray) -> tuple[np.ndarray, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        speed = self._size(info["x_velocity"], info.get("y_velocity", 0.0))
        return np.append(observation, speed), reward, terminated, truncated, info

    def _size(self, x: float, y: float) -> float:
        return math.hypot(x, y) if self.planar else float(x)


def running(robot: str, render_mode: str | None = None, **settings: object) -> Speed:
    """One of `ROBOTS`, its speed observed."""
    found = look_up("robot", robot, ROBOTS)
    make: Callable[..., Env] = lean if found.environment in LEAN else gymnasium.make
    env = make(found.environment, render_mode=render_mode, **{**dict(found.settings), **settings})
    return Speed(env, planar=found.planar)
