"""Pictures of regions: what they show is what the constraint allows."""

import numpy as np
import pytest

import cvflows as cv
from cvflows.reports.region import allowed_share, draw_region


def test_shows_where_actions_are_left(tmp_path):
    found = cv.task("Ball1D").learn(episodes=30, self_test=0)
    states = np.array([[0.5, 0.0, 0.5], [0.89, 0.0, 0.5], [2.0, 0.0, 0.5]])
    middle, edge, outside = allowed_share(found, states)
    assert middle == 1
    assert 0.3 < edge < 0.8
    assert outside == 0
    picture = draw_region(found, tmp_path / "new" / "region.png", (0, 1))
    assert picture.stat().st_size > 10_000
    with pytest.raises(ValueError, match=r"`entries`: expected two different indices in \[0, 3\)"):
        draw_region(found, tmp_path / "x.png", (0, 3))
