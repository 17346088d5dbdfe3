"""What the hand-written worlds share: reading an action, and the words for how an episode ended."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cvflows.errors import ArgumentError

LEFT = "left the safe region"
ARRIVED = "reached the target"
TIME_UP = "time is up"


def clipped(action: Any, size: int) -> list[float]:
    """The entries of an action within [-1,1]; a list of its own, so the caller's array is never written to."""
    entries = np.asarray(action, float).tolist()
    if not isinstance(entries, list) or len(entries) != size:
        raise ArgumentError("action", f"{size} numbers", np.shape(action))
    if not math.isfinite(sum(entries)):
        raise ArgumentError("action", "finite numbers", entries)
    return [min(max(entry, -1.0), 1.0) for entry in entries]
