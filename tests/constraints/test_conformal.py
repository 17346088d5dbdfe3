"""Conformal bounds cover as many new scores as they promise."""

import numpy as np
import pytest

from cvflows.constraints.conformal import bound, coverage


@pytest.mark.parametrize("alpha", [0.01, 0.1])
def test_covers_the_share_that_was_asked_for(alpha):
    """Over many draws of 199 scores, the mean share of new ones below the bound is 1 - α: exact for this count."""
    rng = np.random.default_rng(0)
    shares = [
        coverage(rng.exponential(size=(2000, 1)), np.atleast_1d(bound(rng.exponential(size=199), alpha)))
        for _ in range(400)
    ]
    assert np.mean(shares) == pytest.approx(1 - alpha, abs=4 * np.std(shares) / 20)


def test_is_the_largest_score_where_only_that_suffices():
    assert bound(np.arange(99.0), 0.01) == 98
    assert bound(np.arange(99.0), 0.5) == 49
    np.testing.assert_array_equal(bound(np.array([[1.0, 5.0], [3.0, 2.0], [2.0, 9.0]]), 0.25), [3.0, 9.0])


def test_refuses_what_too_few_scores_cannot_promise():
    with pytest.raises(ValueError, match=r"`alpha`: expected at least 0.01: a smaller one needs 999 held-out steps"):
        bound(np.arange(99.0), 0.001)
    for alpha in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match=r"`alpha`: expected a number in \(0, 1\)"):
            bound(np.arange(99.0), alpha)
