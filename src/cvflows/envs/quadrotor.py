"""Quadrotor: fly in a plane to a wandering target, in a room with a slanted ceiling, without tilting too far.

    ω ← ω + tick·(turn·a₂ - 0.5ω),  θ ← θ + tick·ω,  thrust = gravity·(1 + 0.6a₁)
    v ← v + tick·(-thrust·sin θ - 0.1v₁, thrust·cos θ - gravity - 0.1v₂),  p ← p + tick·v

To move sideways it must tilt first, so that an action is felt at a wall four integrations later.
"""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces

from cvflows.envs.drawing import ALARM, FAINT, GOAL, INK, WALL, Canvas
from cvflows.envs.worlds import LEFT, TIME_UP, Env, Info, clipped
from cvflows.errors import positive

GRAVITY, LIFT, DRAG = 9.81, 0.6, (0.1, 0.5)
WIDTH, HEIGHT, SLANT = 4.0, 2.2, 0.2


class Quadrotor(Env):
    """A quadrotor in a room 4 wide, whose ceiling y = 2.2 - 0.2x comes down to the right.

    **Arguments:**

    - `turn`: angular acceleration by a full command.
    - `tick`, `relocate_after`, `duration`: seconds per step, until the target jumps, until the episode ends.

    Observation (8): x, y, v, tilt θ, ω, target. Reward: max(1 - distance², 0). Touching a wall ends an episode;
    `info["ended"]` says why it ended.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 - Gymnasium's convention

    def __init__(
        self,
        *,
        turn: float = 20.0,
        tick: float = 0.05,
        relocate_after: float = 3.0,
        duration: float = 15.0,
        render_mode: str | None = None,
    ) -> None:
        self.turn, self.tick = positive("turn", turn), positive("tick", tick)
        self.relocate_after, self.duration = positive("relocate_after", relocate_after), positive("duration", duration)
        self.render_mode = render_mode
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, (8,), np.float32)
        self._place, self._velocity, self._tilt, self._spin = [2.0, 1.0], [0.0, 0.0], 0.0, 0.0
        self._target, self._steps = [2.0, 1.0], 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[np.ndarray, Info]:
        super().reset(seed=seed)
        self._place = self.np_random.uniform((1.5, 0.7), (2.5, 1.1)).tolist()
        self._velocity = self.np_random.uniform(-0.2, 0.2, 2).tolist()
        self._tilt, self._spin, self._steps = float(self.np_random.uniform(-0.05, 0.05)), 0.0, 0
        self._relocate()
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, Info]:
        lift, torque = clipped(action, 2)
        self._spin += self.tick * (self.turn * torque - DRAG[1] * self._spin)
        self._tilt += self.tick * self._spin
        thrust = GRAVITY * (1 + LIFT * lift)
        forces = (-thrust * math.sin(self._tilt), thrust * math.cos(self._tilt) - GRAVITY)
        self._velocity = [
            v + self.tick * (force - DRAG[0] * v) for v, force in zip(self._velocity, forces, strict=True)
        ]
        self._place = [p + self.tick * v for p, v in zip(self._place, self._velocity, strict=True)]
        self._steps += 1
        if self._steps % round(self.relocate_after / self.tick) == 0:
            self._relocate()
        crashed = not self._is_inside()
        late = self._steps * self.tick > self.duration - 1e-9
        info: Info = {"ended": LEFT if crashed else TIME_UP} if crashed or late else {}
        reward = max(1.0 - math.dist(self._place, self._target) ** 2, 0.0)
        return self._observe(), reward, crashed, late and not crashed, info

    def _is_inside(self) -> bool:
        (x, y), upright = self._place, abs(self._tilt) < math.pi / 2
        return 0 < x < WIDTH and 0 < y < HEIGHT - SLANT * x and upright

    def _relocate(self) -> None:
        x = float(self.np_random.uniform(0.5, WIDTH - 0.5))
        self._target = [x, float(self.np_random.uniform(0.4, HEIGHT - SLANT * x - 0.4))]

    def _observe(self) -> np.ndarray:
        return np.array([*self._place, *self._velocity, self._tilt, self._spin, *self._target], np.float32)

    def render(self) -> np.ndarray:
        """The room, the target, and the quadrotor with its tilt."""
        canvas = Canvas(-0.3, WIDTH + 0.3)
        corners = ((0.0, 0.0), (WIDTH, 0.0), (WIDTH, HEIGHT - SLANT * WIDTH), (0.0, HEIGHT))
        for start, end in zip(corners, (*corners[1:], corners[0]), strict=True):
            canvas.line(start, end, 0.05, WALL)
        canvas.disc(self._target, 0.08, GOAL)
        (x, y), colour = self._place, INK if self._is_inside() else ALARM
        arm = 0.2 * math.cos(self._tilt), 0.2 * math.sin(self._tilt)
        canvas.line((x - arm[0], y - arm[1]), (x + arm[0], y + arm[1]), 0.06, colour)
        canvas.line((x, y), (x + 0.2 * self._velocity[0], y + 0.2 * self._velocity[1]), 0.02, FAINT)
        return canvas.pixels
