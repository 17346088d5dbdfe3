"""Statistics of reports against oracles."""

import numpy as np
import pytest
import scipy.stats

from cvflows.reports.stats import aggregate, curve, improvement, iqm


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 10])
def test_iqm_is_a_trimmed_mean(count):
    values = np.random.default_rng(count).normal(size=(count, 7))
    np.testing.assert_allclose(iqm(values), scipy.stats.trim_mean(values, 0.25))


def test_improvement_is_the_mann_whitney_statistic():
    rng = np.random.default_rng(0)
    ours, theirs = [rng.integers(0, 9, 6), rng.normal(1, 1, 5)], [rng.integers(0, 9, 4), rng.normal(0, 1, 7)]
    wins = [scipy.stats.mannwhitneyu(x, y).statistic / (len(x) * len(y)) for x, y in zip(ours, theirs, strict=True)]
    found = improvement(ours, theirs)
    assert found.value == pytest.approx(np.mean(wins))
    assert found.low < found.value < found.high
    assert improvement(theirs, ours).value == pytest.approx(1 - found.value)


def test_intervals_hold_what_they_should():
    """Ten runs on each of three tasks of other means: a 95 % interval of the IQM covers most of the time."""
    rng, inside = np.random.default_rng(1), 0
    truth = iqm(np.concatenate([rng.normal(mean, 1, 100_000) for mean in (0, 1, 2)]))
    for trial in range(200):
        found = aggregate([rng.normal(mean, 1, 10) for mean in (0, 1, 2)], repeats=400, seed=trial)
        inside += found.low <= truth <= found.high
    assert 0.87 <= inside / 200 <= 0.99


def test_curves_follow_the_seeds():
    values = np.cumsum(np.random.default_rng(2).normal(size=(5, 30)), axis=1)
    middle, low, high = curve(values)
    np.testing.assert_allclose(middle, iqm(values))
    assert np.all((low <= middle) & (middle <= high))
    assert np.all((values.min(axis=0) <= low) & (high <= values.max(axis=0)))
