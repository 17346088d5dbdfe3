"""Ball: keep a ball near a wandering target without leaving the unit cube (after Dalal et al., 2018).

An action sets the ball's velocity; it then coasts for four ticks, losing a little speed at each. The target jumps to a
new place every two seconds and is seen with noise. Leaving the cube ends the episode, as do thirty seconds.
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from cvflows.envs.drawing import ALARM, FAINT, GOAL, INK, PAPER, WALL, Canvas
from cvflows.envs.worlds import LEFT, TIME_UP, Env, Info, clipped
from cvflows.errors import ArgumentError, dimension, positive


class BallWorld(Env):
    """A ball in [0,1]^n.

    **Arguments:**

    - `n`: dimensions.
    - `tick`, `ticks`, `damping`: `ticks` times per action the ball moves by tick·v and v becomes damping·v.
    - `relocate_after`, `duration`: seconds after which the target jumps, and after which the episode ends.
    - `noise`: standard deviation of the target as observed.

    Observation: position, velocity, noisy target (3n). Reward: max(1 - 10‖x - target‖², 0), after the target has moved.
    `info["ended"]` says why an episode ended.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 - Gymnasium's convention

    def __init__(
        self,
        n: int = 1,
        *,
        tick: float = 0.1,
        ticks: int = 4,
        damping: float = 0.95,
        relocate_after: float = 2.0,
        duration: float = 30.0,
        noise: float = 0.05,
        render_mode: str | None = None,
    ) -> None:
        self.n, self.ticks = dimension("n", n), dimension("ticks", ticks)
        self.tick, self.damping = positive("tick", tick), positive("damping", damping)
        self.relocate_after, self.duration = positive("relocate_after", relocate_after), positive("duration", duration)
        if not noise >= 0:
            raise ArgumentError("noise", "a number ≥ 0", noise)
        self.noise, self.render_mode = float(noise), render_mode
        self.action_space = spaces.Box(-1.0, 1.0, (n,), np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, (3 * n,), np.float32)
        self._reach = self.tick * sum(damping**k for k in range(ticks))  # how far one unit of action carries
        self._left = damping**ticks
        self._position = [0.5] * self.n
        self._velocity = [0.0] * self.n
        self._target = [0.5] * self.n
        self._since = self._steps = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[np.ndarray, Info]:
        super().reset(seed=seed)
        self._position, self._velocity = [0.5] * self.n, [0.0] * self.n
        self._steps = 0
        self._relocate()
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, Info]:
        speed = clipped(action, self.n)
        self._position = [x + self._reach * v for x, v in zip(self._position, speed, strict=True)]
        self._velocity = [self._left * v for v in speed]
        self._steps += 1
        self._since += 1
        seconds = self.ticks * self.tick
        if self._since * seconds > self.relocate_after + 1e-9:
            self._relocate()
        gap = sum((x - y) ** 2 for x, y in zip(self._position, self._target, strict=True))
        outside = min(self._position) < 0 or max(self._position) > 1
        late = self._steps * seconds > self.duration + 1e-9
        info: Info = {"ended": LEFT if outside else TIME_UP} if outside or late else {}
        return self._observe(), max(1.0 - 10.0 * gap, 0.0), outside, late and not outside, info

    def _relocate(self) -> None:
        self._target = self.np_random.uniform(0.2, 0.8, self.n).tolist()
        self._since = 0

    def _observe(self) -> np.ndarray:
        noise = self.np_random.standard_normal(self.n).tolist()
        seen = [y + self.noise * e for y, e in zip(self._target, noise, strict=True)]
        return np.array(self._position + self._velocity + seen, np.float32)

    def render(self) -> np.ndarray:
        """The first two entries as x and y, the third as size: nearer is larger."""
        canvas = Canvas(-0.15, 1.15)
        canvas.rectangle((-9, -9), (9, 9), WALL)
        flat = self.n == 1
        canvas.rectangle((0, 0.35 if flat else 0), (1, 0.65 if flat else 1), PAPER)
        if flat:
            canvas.line((0, 0.5), (1, 0.5), 0.006, FAINT)
        inside = min(self._position) >= 0 and max(self._position) <= 1
        for point, radius, colour in (
            (self._target, 0.055, GOAL),
            (self._position, 0.035, INK if inside else ALARM),
        ):
            depth = 0.7 + 0.6 * point[2] if self.n > 2 else 1.0
            canvas.disc((point[0], 0.5 if flat else point[1]), radius * depth, colour)
        return canvas.pixels
