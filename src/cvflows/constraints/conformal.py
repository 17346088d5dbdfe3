"""Conformal bounds: a number that a share 1 - α of new scores stays below, whatever their distribution.

With n scores that are exchangeable with the next one, the ⌈(n+1)(1-α)⌉-th smallest bounds it with probability at least
1 - α. Nothing is assumed of the model whose errors these are; but scores drawn elsewhere promise nothing here.
"""

from __future__ import annotations

import math

import numpy as np

from cvflows.errors import ArgumentError


def checked_alpha(alpha: float) -> float:
    """`alpha`, or an error unless it lies in (0, 1)."""
    if not 0 < alpha < 1:
        raise ArgumentError("alpha", "a number in (0, 1): the share of steps that may be predicted worse", alpha)
    return float(alpha)


def bound(scores: np.ndarray, alpha: float) -> np.ndarray:
    """What a new score stays below with probability 1 - α; `scores` (n, ...) are of held-out samples.

    An error where there are too few to say so: it takes n ≥ 1/α - 1.
    """
    n = len(scores)
    rank = math.ceil((n + 1) * (1 - checked_alpha(alpha)) - 1e-9)
    if rank > n:
        least = math.ceil(1 / alpha - 1 - 1e-9)
        raise ArgumentError("alpha", f"at least {1 / (n + 1):.2g}: a smaller one needs {least} held-out steps", alpha)
    return np.asarray(np.partition(scores, rank - 1, axis=0)[rank - 1])


def coverage(scores: np.ndarray, claimed: np.ndarray) -> float:
    """Share of new scores (n, k) none of whose entries exceeds `claimed` (k,)."""
    return float((scores <= claimed).all(axis=1).mean())
