"""Noise that policies explore with: standard normal at every step, and correlated from step to step if wanted.

    ε' = ρ ε + √(1-ρ²) ξ,   ξ ~ N(0, 1)

White noise (ρ = 0) makes a heavy body tremble on the spot; correlated noise carries it somewhere.
"""

from __future__ import annotations

import math

import numpy as np


class Exploration:
    """Noise of some environments side by side, begun anew with every episode (so it need not be saved)."""

    def __init__(self, environments: int, dim: int, correlation: float = 0.0) -> None:
        self._noise = np.zeros((environments, dim), np.float32)
        self._fresh = np.ones(environments, bool)
        self._keep, self._new = np.float32(correlation), np.float32(math.sqrt(1 - correlation**2))

    def restart(self, index: int) -> None:
        """Forget the noise of one environment."""
        self._fresh[index] = True

    def draw(self, rng: np.random.Generator, *, white: bool = False) -> np.ndarray:
        """The next noise of every environment, (environments, dim); `white` noise ignores the step before."""
        drawn = rng.standard_normal(self._noise.shape, np.float32)
        if self._keep and not white:
            correlated = self._keep * self._noise + self._new * drawn
            drawn = np.where(self._fresh[:, None], drawn, correlated)
            self._fresh[:] = False
            self._noise = drawn
        return drawn
