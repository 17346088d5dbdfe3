"""When the papers of this field call an action forbidden. Looser than our one strict tolerance; kept for comparison.

- Kasaura et al. 2023, and what builds on their code: a row's own unit matters; linear rows and the box may be 0.1 over,
  quadratic ones 0.01, a norm 0.001.
- FlowPG: the positive parts of all rows, in their own units, may sum to 0.1.

Each set states its own rows (`AbstractConstraint.legacy_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LINEAR, QUADRATIC, NORM = 0.1, 0.01, 0.001
FLOWPG = 0.1


class LegacyRows(NamedTuple):
    """Per row, the box apart: its unit (row times unit is the unnormalised g) and what Kasaura's code lets it be."""

    units: np.ndarray
    limits: np.ndarray


def one_row(unit: float, limit: float) -> LegacyRows:
    """A single row."""
    return LegacyRows(np.array([unit]), np.array([limit]))


def linear_rows(count: int) -> LegacyRows:
    """Linear rows that are not normalised by anything."""
    return LegacyRows(np.ones(count), np.full(count, LINEAR))


def joined(parts: Sequence[LegacyRows]) -> LegacyRows:
    """The rows of an intersection."""
    units, limits = zip(*parts, strict=True)
    return LegacyRows(np.concatenate(units), np.concatenate(limits))
