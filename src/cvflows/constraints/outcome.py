"""What a projection and the linear maximiser return, and the tolerance by which they are judged."""

from __future__ import annotations

import enum
from typing import NamedTuple

from jaxtyping import Array, Float, Int

TOLERANCE = 1e-6
"""The one strict tolerance on normalised g: an action counts as feasible when every row is at most this."""


class Outcome(enum.IntEnum):
    """How the nearest (or furthest) feasible action was found."""

    EXACT = 0
    """The optimum, by construction or by a dual bound on the distance."""
    APPROXIMATE = 1
    """Feasible and good, but the optimum is not certified."""
    FALLBACK = 2
    """Feasible, but the solver failed: a point on the way to the anchor, or the anchor."""
    EMPTY = 3
    """No action is feasible in this context: the one whose worst row is least."""


class Maximum(NamedTuple):
    """`action` (..., dim) and its `outcome` (an `Outcome` per sample), of the linear maximiser."""

    action: Float[Array, "... dim"]
    outcome: Int[Array, "..."]


class Projection(NamedTuple):
    """`action` (..., dim), its `outcome` (an `Outcome` per sample) and its `distance` from the input."""

    action: Float[Array, "... dim"]
    outcome: Int[Array, "*batch"]
    distance: Float[Array, "*batch"]
