"""Statuses of a controller: one list for C and for Python."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """What a call returned. Every status but UNSAFE promises an action that is allowed at the observation given."""

    OK = 0
    """The policy's action."""
    FALLBACK_INPUT = 1
    """An observation entry is NaN or infinite; the action is a fallback."""
    FALLBACK_RANGE = 2
    """An entry is beyond the declared limits of the inputs; the action is a fallback."""
    FALLBACK_STALE = 3
    """The observation is older than the caller allows, or newer than now; the action is a fallback."""
    FALLBACK_CHECK = 4
    """The policy's action is not allowed, or not a number; the action is a fallback."""
    FALLBACK_ASKED = 5
    """The caller asked for the fallback."""
    UNSAFE = 6
    """Nothing is known to be allowed; the action is the one that violates least of those that are known."""


class Used(enum.IntEnum):
    """Where an action comes from."""

    POLICY = 0
    LAST = 1
    """The last allowed action."""
    ANCHOR = 2
    """An inner point of the set at this context."""
    FIXED = 3
    """The fixed action."""
