"""Acceptance-rejection: the second buffer fades."""

import pytest

from cvflows.agents.rejection import share_of_rejected


def test_share_of_rejected_actions_fades():
    assert [share_of_rejected(step) for step in (0, 9_999, 10_000)] == pytest.approx([0.2, 0.2, 0.198])
