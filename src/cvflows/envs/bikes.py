"""Bikes: share a fixed number of bicycles among the zones of a city, hour by hour, before the riders come.

Every hour the operator says how many bikes each zone shall hold. Bikes are moved there, riders take them, and leave
them in other zones. The shares must add up to the bikes there are, and no zone may hold more than its docks.
"""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces

from cvflows.envs.drawing import FAINT, GOAL, INK, Canvas
from cvflows.envs.worlds import TIME_UP, Env, Info, clipped
from cvflows.errors import ArgumentError, dimension, positive


class Bikes(Env):
    """A city of `zones` with `total` bikes.

    **Arguments:**

    - `least`, `docks`: fewest and most bikes in a zone: a_i ∈ [-1,1] stands for bikes between them.
    - `riders`: riders per bike and hour at most times; each zone has its own rush hour.
    - `moving_cost`: what moving one bike costs, where one rider served pays 1.

    Observation: bikes in each zone and riders expected in the coming hour, both per dock, sine and cosine of the hour
    (2·zones + 2). Reward: riders served, less what was moved, per bike. An episode is a day of 24 hours.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}  # noqa: RUF012 - Gymnasium's convention

    def __init__(
        self,
        zones: int = 5,
        total: float = 150.0,
        *,
        least: float = 0.0,
        docks: float = 40.0,
        riders: float = 0.8,
        moving_cost: float = 0.1,
        render_mode: str | None = None,
    ) -> None:
        self.zones, self.total, self.docks = (
            dimension("zones", zones),
            positive("total", total),
            positive("docks", docks),
        )
        self.least, self.riders, self.moving_cost = float(least), positive("riders", riders), float(moving_cost)
        if not 0 <= zones * least < total < zones * docks:
            raise ArgumentError("total", f"between {zones * least:g} and {zones * docks:g}, what the zones hold", total)
        self.render_mode = render_mode
        self.action_space = spaces.Box(-1.0, 1.0, (zones,), np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, (2 * zones + 2,), np.float32)
        self._bikes = np.full(zones, total / zones)
        self._hour = 0

    @property
    def share_total(self) -> float:
        """What the entries of an action must add up to: Σ a_i = (2·total - zones·(least + docks)) / (docks - least)."""
        return (2 * self.total - self.zones * (self.least + self.docks)) / (self.docks - self.least)

    def expected_riders(self) -> np.ndarray:
        """Riders expected in the coming hour, zone by zone."""
        phase = 2 * math.pi * (self._hour / 24 - np.arange(self.zones) / self.zones)
        return self.riders * self.total / self.zones * (1 + 0.9 * np.sin(phase))

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[np.ndarray, Info]:
        super().reset(seed=seed)
        self._bikes, self._hour = np.full(self.zones, self.total / self.zones), 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, Info]:
        share = (np.asarray(clipped(action, self.zones)) + 1) / 2
        wanted = self.least + share * (self.docks - self.least)
        wanted *= self.total / wanted.sum()  # bikes are neither made nor lost, whatever the last digit of an action
        moved = float(np.abs(wanted - self._bikes).sum()) / 2
        asked = self.np_random.poisson(self.expected_riders()).astype(float)
        served = np.minimum(asked, np.floor(wanted))
        self._bikes = wanted - served + self._destinations(int(served.sum()))
        self._hour += 1
        reward = (float(served.sum()) - self.moving_cost * moved) / self.total
        late = self._hour >= 24
        info = {"asked": float(asked.sum()), "served": float(served.sum()), "moved": moved}
        return self._observe(), reward, False, late, {**info, **({"ended": TIME_UP} if late else {})}

    def _destinations(self, riders: int) -> np.ndarray:
        """Where riders leave their bikes: in any zone, more often where fewer set out."""
        pull = 1 / (1 + self.expected_riders())
        return self.np_random.multinomial(riders, pull / pull.sum()).astype(float)

    def _observe(self) -> np.ndarray:
        phase = 2 * math.pi * self._hour / 24
        zones = np.concatenate([self._bikes, self.expected_riders()]) / self.docks
        return np.array([*zones, math.sin(phase), math.cos(phase)], np.float32)

    def render(self) -> np.ndarray:
        """A bar of bikes per zone, its docks behind it, and a mark where the coming riders are."""
        canvas = Canvas(0, 1)
        wide, top = 0.9 / self.zones, 0.6 / self.docks  # riders may leave more bikes than there are docks
        for zone, (bikes, riders) in enumerate(zip(self._bikes, self.expected_riders(), strict=True)):
            left, right = 0.05 + wide * (zone + 0.15), 0.05 + wide * (zone + 0.85)
            canvas.rectangle((left, 0.05), (right, 0.05 + top * self.docks), FAINT)
            canvas.rectangle((left, 0.05), (right, 0.05 + top * bikes), INK)
            canvas.rectangle((left - 0.01, 0.045 + top * riders), (right + 0.01, 0.055 + top * riders), GOAL)
        return canvas.pixels
