"""Pole: hold an upright pole at a wandering angle without letting it lean too far. A world that is not linear.

    ω ← ω + tick·(gravity·sin θ + torque·a - drag·|ω|ω),   θ ← θ + tick·ω

Gravity pulls it further the further it leans; at the limit it takes nearly half of the full torque to hold it.
"""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces

from cvflows.envs.drawing import ALARM, FAINT, GOAL, INK, WALL, Canvas
from cvflows.envs.worlds import LEFT, TIME_UP, Env, Info, clipped
from cvflows.errors import positive


class Pole(Env):
    """An inverted pole with a motor in its hinge.

    **Arguments:**

    - `gravity`, `torque`, `drag`: angular acceleration by gravity and by a full command, and quadratic drag.
    - `limit`: the lean, in rad, beyond which the episode ends.
    - `tick`, `relocate_after`, `duration`: seconds per step, until the target jumps, until the episode ends.

    Observation: θ, ω, target angle (3). Reward: max(1 - 10(θ - target)², 0). `info["ended"]` says why an episode ended.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 - Gymnasium's convention

    def __init__(
        self,
        *,
        gravity: float = 2.0,
        torque: float = 4.0,
        drag: float = 0.5,
        limit: float = 1.0,
        tick: float = 0.05,
        relocate_after: float = 2.0,
        duration: float = 10.0,
        render_mode: str | None = None,
    ) -> None:
        self.gravity, self.torque, self.drag = positive("gravity", gravity), positive("torque", torque), float(drag)
        self.limit, self.tick = positive("limit", limit), positive("tick", tick)
        self.relocate_after, self.duration = positive("relocate_after", relocate_after), positive("duration", duration)
        self.render_mode = render_mode
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self._angle = self._speed = self._target = 0.0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[np.ndarray, Info]:
        super().reset(seed=seed)
        self._angle, self._speed, self._steps = float(self.np_random.uniform(-0.5, 0.5)), 0.0, 0
        self._relocate()
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, Info]:
        (command,) = clipped(action, 1)
        push = self.gravity * math.sin(self._angle) + self.torque * command - self.drag * abs(self._speed) * self._speed
        self._speed += self.tick * push
        self._angle += self.tick * self._speed
        self._steps += 1
        if self._steps % round(self.relocate_after / self.tick) == 0:
            self._relocate()
        outside = abs(self._angle) > self.limit
        late = self._steps * self.tick > self.duration - 1e-9
        info: Info = {"ended": LEFT if outside else TIME_UP} if outside or late else {}
        reward = max(1.0 - 10.0 * (self._angle - self._target) ** 2, 0.0)
        return self._observe(), reward, outside, late and not outside, info

    def _relocate(self) -> None:
        self._target = float(self.np_random.uniform(-0.8, 0.8)) * self.limit

    def _observe(self) -> np.ndarray:
        return np.array([self._angle, self._speed, self._target], np.float32)

    def render(self) -> np.ndarray:
        """The pole, its limits, and where it should be."""
        canvas = Canvas(-1.15, 1.15)

        def tip(angle: float, length: float = 1.0) -> tuple[float, float]:
            return length * math.sin(angle), length * math.cos(angle) - 0.4

        for side in (-self.limit, self.limit):
            canvas.line(tip(0, 0), tip(side), 0.02, WALL)
        canvas.line(tip(0, 0), tip(self._target, 0.95), 0.01, FAINT)
        canvas.disc(tip(self._target), 0.06, GOAL)
        colour = INK if abs(self._angle) <= self.limit else ALARM
        canvas.line(tip(0, 0), tip(self._angle), 0.05, colour)
        canvas.disc(tip(0, 0), 0.06, colour)
        return canvas.pixels
