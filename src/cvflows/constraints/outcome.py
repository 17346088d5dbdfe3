"""What a projection returns."""

from __future__ import annotations

import enum
from typing import NamedTuple

from jaxtyping import Array, Float, Int


class Outcome(enum.IntEnum):
    """How a projection was found."""

    EXACT = 0
    """The nearest feasible action, by construction or by a dual bound on the distance."""
    APPROXIMATE = 1
    """Feasible and near, but the optimum is not certified."""
    FALLBACK = 2
    """Feasible, but the solver failed: a point on the way to the anchor, or the anchor."""
    EMPTY = 3
    """No action is feasible in this context: the one whose worst row is least."""


class Projection(NamedTuple):
    """`action` (..., dim), its `outcome` (an `Outcome` per sample) and its `distance` from the input."""

    action: Float[Array, "... dim"]
    outcome: Int[Array, "*batch"]
    distance: Float[Array, "*batch"]
