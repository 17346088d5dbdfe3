"""Statistics of few runs, by the conventions of rliable (Agarwal et al., 2021).

Interquartile means, stratified bootstrap intervals, and the probability that one method beats another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

Scores = Sequence[np.ndarray]
"""For each task, the scores of its runs."""
LEVEL = 0.95


class Estimate(NamedTuple):
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float


def iqm(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """Mean of what is left when the lowest and the highest quarter are cut off (whole values, rounded down)."""
    ordered = np.sort(np.asarray(values, float), axis=axis)
    count = ordered.shape[axis]
    cut = count // 4
    return np.asarray(np.mean(np.take(ordered, range(cut, count - cut), axis=axis), axis=axis))


def interval(samples: np.ndarray, axis: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The middle 95 % of bootstrap samples."""
    tails = 50 * (1 - LEVEL)
    low, high = np.percentile(samples, [tails, 100 - tails], axis=axis)
    return np.asarray(low), np.asarray(high)


def aggregate(
    scores: Scores,
    measure: Callable[[np.ndarray], np.ndarray] = iqm,
    *,
    repeats: int = 2000,
    seed: int = 0,
) -> Estimate:
    """`measure` of all runs of all tasks; runs are resampled within each task."""
    rng = np.random.default_rng(seed)
    whole = np.concatenate([np.asarray(some, float) for some in scores])
    drawn = [np.asarray(some)[rng.integers(len(some), size=(len(some), repeats))] for some in scores]
    low, high = interval(measure(np.concatenate(drawn)))
    return Estimate(float(measure(whole)), float(low), float(high))


def curve(values: np.ndarray, *, repeats: int = 500, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """IQM of runs (n, t) at every point, and its interval."""
    n = len(values)
    if n == 1:
        return values[0], values[0], values[0]
    picks = np.random.default_rng(seed).integers(n, size=(repeats, n))
    low, high = interval(iqm(values[picks], axis=1))
    return iqm(values), low, high


def improvement(ours: Scores, theirs: Scores, *, repeats: int = 2000, seed: int = 0) -> Estimate:
    """P(X > Y), a tie counting half, averaged over tasks."""
    rng = np.random.default_rng(seed)

    def chance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        better = np.sign(x[..., :, None] - y[..., None, :])
        return np.asarray((better.mean(axis=(-2, -1)) + 1) / 2)

    pairs = [(np.asarray(x, float), np.asarray(y, float)) for x, y in zip(ours, theirs, strict=True)]
    value = float(np.mean([chance(x, y) for x, y in pairs]))
    drawn = [
        chance(x[rng.integers(len(x), size=(repeats, len(x)))], y[rng.integers(len(y), size=(repeats, len(y)))])
        for x, y in pairs
    ]
    low, high = interval(np.mean(drawn, axis=0))
    return Estimate(value, float(low), float(high))
