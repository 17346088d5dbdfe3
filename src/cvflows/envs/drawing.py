"""Small pictures without a graphics library: discs and rectangles with soft edges on a numpy canvas."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

SIZE = 320
PAPER, WALL, INK, GOAL, FAINT = (250, 250, 247), (222, 205, 200), (31, 78, 121), (27, 150, 100), (200, 205, 210)
ALARM = (200, 60, 50)
Colour = tuple[int, int, int]


class Canvas:
    """An RGB picture of the square [low, high]², y upwards."""

    def __init__(self, low: float, high: float) -> None:
        self.pixels = np.empty((SIZE, SIZE, 3), np.uint8)
        self.pixels[:] = PAPER
        side = np.linspace(low, high, SIZE)
        self.x, self.y = side[None, :], side[::-1, None]
        self.pixel = (high - low) / SIZE

    def disc(self, centre: Sequence[float], radius: float, colour: Colour) -> None:
        """A filled circle."""
        distance = np.hypot(self.x - centre[0], self.y - centre[1])
        self._blend((radius - distance) / self.pixel + 0.5, colour)

    def rectangle(self, low: Sequence[float], high: Sequence[float], colour: Colour) -> None:
        """A filled rectangle; infinite sides reach the edge of the picture."""
        inside = [np.minimum(self.x - low[0], high[0] - self.x), np.minimum(self.y - low[1], high[1] - self.y)]
        self._blend(np.minimum(*inside) / self.pixel + 0.5, colour)

    def line(self, start: Sequence[float], end: Sequence[float], width: float, colour: Colour) -> None:
        """A stroke with round ends."""
        way = (end[0] - start[0], end[1] - start[1])
        length = max(math.hypot(*way), 1e-12)
        along = ((self.x - start[0]) * way[0] + (self.y - start[1]) * way[1]) / length**2
        along = np.clip(along, 0, 1)
        distance = np.hypot(self.x - start[0] - along * way[0], self.y - start[1] - along * way[1])
        self._blend((width / 2 - distance) / self.pixel + 0.5, colour)

    def _blend(self, cover: np.ndarray, colour: Colour) -> None:
        share = np.clip(cover, 0, 1)[..., None]
        self.pixels = (self.pixels * (1 - share) + np.asarray(colour) * share).astype(np.uint8)
