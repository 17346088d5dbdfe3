"""The README.md of an artefact: what it is, and how it is called from C, C++, Python and ROS 2."""

from __future__ import annotations

from cvflows.controllers.plan import Plan


def readme(plan: Plan) -> str:
    """The page of one controller."""
    return "stub"
