"""Is a set that a user declared convex really so? Midpoints of allowed actions must be allowed."""

from __future__ import annotations

import numpy as np

from cvflows.constraints.base import TOLERANCE, AbstractConstraint, Intersection, Reads
from cvflows.constraints.judge import judge_of
from cvflows.errors import NotConvexError

TRIED = 256
SLACK = 10 * TOLERANCE
"""Midpoints of actions on the boundary are allowed up to rounding."""


def is_declared_convex(constraint: AbstractConstraint) -> bool:
    """Whether only the user's word says that the set is convex: some part of it is not built in."""
    return constraint.convex and any(not part.proven for part in _leaves(constraint))


def check_convex(
    constraint: AbstractConstraint, x: np.ndarray, *, actions: np.ndarray | None = None, seed: int = 0
) -> None:
    """Raise if the midpoint of two allowed actions at context `x` is forbidden.

    The actions (n, dim) are given, or drawn at random from the box; it says nothing where fewer than two are allowed.
    """
    rng, judge = np.random.default_rng(seed), judge_of(constraint)
    tried = rng.uniform(-1, 1, (TRIED, constraint.action_dim)) if actions is None else actions.astype(np.float64)
    allowed = tried[judge.many(x, tried).max(axis=1) <= 0][:TRIED]
    if len(allowed) < 2:
        return
    first, second = allowed, allowed[(np.arange(len(allowed)) + rng.integers(1, len(allowed))) % len(allowed)]
    middle = (first + second) / 2
    worst = judge.many(x, middle).max(axis=1)
    index = int(np.argmax(worst))
    if worst[index] > SLACK:
        raise NotConvexError(
            f"the set was declared `convex=True` and is not: at context {x.tolist()} the actions "
            f"{first[index].round(4).tolist()} and {second[index].round(4).tolist()} are allowed, their midpoint "
            f"violates it by {worst[index]:.3g}. Declare `convex=False`"
        )


def _leaves(constraint: AbstractConstraint) -> list[AbstractConstraint]:
    if isinstance(constraint, Intersection):
        return [leaf for part in constraint.parts for leaf in _leaves(part)]
    return _leaves(constraint.part) if isinstance(constraint, Reads) else [constraint]
