"""Replay: transitions as rows of one float32 table, the oldest overwritten when it is full."""

from __future__ import annotations

import numpy as np

from cvflows.errors import dimension


class Replay:
    """Rows (observation, taken, reward, following, terminal); see `Batch.unpack`."""

    def __init__(self, capacity: int, width: int) -> None:
        self.rows = np.zeros((dimension("capacity", capacity), dimension("width", width)), np.float32)
        self.added = 0

    def __len__(self) -> int:
        return min(self.added, len(self.rows))

    def add(self, rows: np.ndarray) -> None:
        """Append rows (n, width)."""
        places = (self.added + np.arange(len(rows))) % len(self.rows)
        self.rows[places] = rows
        self.added += len(rows)

    def last(self, count: int) -> np.ndarray:
        """The last rows that were added (≤ count, width), the oldest first; fewer where they were overwritten."""
        return self.rows[np.arange(self.added - min(count, len(self)), self.added) % len(self.rows)]

    def restore(self, rows: np.ndarray, added: int) -> None:
        """Hold what `last` gave when `added` rows had been."""
        self.rows[np.arange(added - len(rows), added) % len(self.rows)] = rows
        self.added = added

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Rows drawn with replacement, shape (*shape, width)."""
        return self.rows[rng.integers(0, len(self), shape)]
