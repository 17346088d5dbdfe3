"""Spaceship: thrust to a target without touching the walls (after Dalal et al., 2018).

    v ← v + 0.1 a,   x ← x + 0.1 v,   v ← 0.95 v

Momentum makes it hard: close to a wall at full speed no thrust helps any more. Reaching the target pays 1000 and ends
the episode; touching a wall ends it for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypedDict, Unpack

import numpy as np
from gymnasium import spaces

from cvflows.envs.drawing import ALARM, GOAL, INK, PAPER, WALL, Canvas
from cvflows.envs.worlds import ARRIVED, LEFT, TIME_UP, Env, Info, clipped
from cvflows.errors import ArgumentError, positive

Pair = tuple[float, float]


class Spaceship(Env):
    """A ship in the plane.

    **Arguments:**

    - `low`, `high`: the walls; ±inf where there is none.
    - `start_low`, `start_high`: the ship starts at rest, uniformly between these.
    - `target`, `radius`: where it has to go, and how near; any point on the way of a step counts.
    - `duration`: seconds until the episode is truncated; `tick`: seconds per step; `damping`: of the speed, per step.

    Observation: position and velocity (4). `info["ended"]` says why an episode ended.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - Gymnasium's convention

    def __init__(
        self,
        *,
        low: Pair,
        high: Pair,
        start_low: Pair,
        start_high: Pair,
        target: Pair,
        duration: float,
        radius: float = 0.05,
        tick: float = 0.1,
        damping: float = 0.95,
        render_mode: str | None = None,
    ) -> None:
        if not all(a <= b <= c <= d for a, b, c, d in zip(low, start_low, start_high, high, strict=True)):
            raise ArgumentError("start_low", "low ≤ start_low ≤ start_high ≤ high", (low, start_low, start_high, high))
        self.low, self.high, self.start_low, self.start_high = low, high, start_low, start_high
        self.target, self.radius, self.duration = target, positive("radius", radius), positive("duration", duration)
        self.tick, self.damping = positive("tick", tick), positive("damping", damping)
        self.render_mode = render_mode
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self._position, self._velocity, self._steps = list(start_low), [0.0, 0.0], 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[np.ndarray, Info]:
        super().reset(seed=seed)
        self._position = self.np_random.uniform(self.start_low, self.start_high).tolist()
        self._velocity, self._steps = [0.0, 0.0], 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, Info]:
        before, thrust = self._position, clipped(action, 2)
        speed = [v + self.tick * a for v, a in zip(self._velocity, thrust, strict=True)]
        self._position = [x + self.tick * v for x, v in zip(before, speed, strict=True)]
        self._velocity = [self.damping * v for v in speed]
        self._steps += 1
        crashed = not self._is_inside()
        arrived = not crashed and self._passes(before)
        late = self._steps * self.tick > self.duration + 1e-9
        info: Info = {}
        if crashed or arrived or late:
            info["ended"] = LEFT if crashed else ARRIVED if arrived else TIME_UP
        done = crashed or arrived
        return self._observe(), 1000.0 if arrived else 0.0, done, late and not done, info

    def _is_inside(self) -> bool:
        return all(low <= x <= high for low, x, high in zip(self.low, self._position, self.high, strict=True))

    def _passes(self, before: list[float]) -> bool:
        """Whether the way from `before` to the present position comes near the target."""
        way = self._position[0] - before[0], self._position[1] - before[1]
        offset = self.target[0] - before[0], self.target[1] - before[1]
        length = way[0] ** 2 + way[1] ** 2
        along = min(max((way[0] * offset[0] + way[1] * offset[1]) / length, 0.0), 1.0) if length > 0 else 0.0
        return math.hypot(offset[0] - along * way[0], offset[1] - along * way[1]) <= self.radius

    def _observe(self) -> np.ndarray:
        return np.array(self._position + self._velocity, np.float32)

    def render(self) -> np.ndarray:
        """The walls, the target, and the ship with a tail that shows its speed."""
        canvas = Canvas(-0.15, 1.15)
        canvas.rectangle((-9, -9), (9, 9), WALL)
        canvas.rectangle(self.low, self.high, PAPER)
        canvas.disc(self.target, self.radius, GOAL)
        tail = [x - 0.3 * v for x, v in zip(self._position, self._velocity, strict=True)]
        colour = INK if self._is_inside() else ALARM
        canvas.line(tail, self._position, 0.012, colour)
        canvas.disc(self._position, 0.025, colour)
        return canvas.pixels


class Changes(TypedDict, total=False):
    """Arguments of `Spaceship`."""

    low: Pair
    high: Pair
    start_low: Pair
    start_high: Pair
    target: Pair
    duration: float
    radius: float
    tick: float
    damping: float
    render_mode: str | None


def corridor(**changes: Unpack[Changes]) -> Spaceship:
    """Two walls, one apart, and the target up the corridor; fifteen seconds."""
    settings: Changes = {
        "low": (0.0, -math.inf),
        "high": (1.0, math.inf),
        "start_low": (0.05, 0.0),
        "start_high": (0.95, 0.3),
        "target": (0.5, 1.0),
        "duration": 15.0,
    }
    make: Callable[..., Spaceship] = Spaceship
    return make(**{**settings, **changes})


def arena(**changes: Unpack[Changes]) -> Spaceship:
    """Four walls; from one corner towards the other; forty-five seconds."""
    settings: Changes = {
        "low": (0.0, 0.0),
        "high": (1.0, 1.0),
        "start_low": (0.05, 0.05),
        "start_high": (0.25, 0.25),
        "target": (0.8, 0.8),
        "duration": 45.0,
    }
    make: Callable[..., Spaceship] = Spaceship
    return make(**{**settings, **changes})
