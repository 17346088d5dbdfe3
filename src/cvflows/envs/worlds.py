"""What the environments of this package share: their types, reading an action, and why an episode ended."""

from __future__ import annotations

import math
from collections.abc import Sequence

import gymnasium
import numpy as np

from cvflows.errors import ArgumentError

Env = gymnasium.Env[np.ndarray, np.ndarray]
Info = dict[str, object]
"""What an environment says about a reset or a step, and the options of a reset."""
LEFT = "left the safe region"
ARRIVED = "reached the target"
TIME_UP = "time is up"


def clipped(action: np.ndarray | Sequence[float], size: int) -> list[float]:
    """The entries of an action within [-1,1]; a new list, so the caller's array is never written to."""
    entries = np.asarray(action, float).tolist()
    if not isinstance(entries, list) or len(entries) != size:
        raise ArgumentError("action", f"{size} numbers", np.shape(action))
    if not math.isfinite(sum(entries)):
        raise ArgumentError("action", "finite numbers", entries)
    return [min(max(entry, -1.0), 1.0) for entry in entries]
