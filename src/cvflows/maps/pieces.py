"""Whether a set is in several pieces, which a map that learns from violations alone does not notice.

Feasible samples are joined where the straight way between them is feasible; groups that remain are joined where the way
along the set is: the straight way's projection, if it has no jump.
"""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.contexts import ContextDistribution
from cvflows.constraints.sample import FeasibleSamples
from cvflows.errors import DisconnectedSetWarning

CONTEXTS, TRIES, SAMPLES = 4, 32768, 96
STOPS = 15
"""Points looked at on a straight way between two samples."""
STEPS = 48
SMALLEST = 0.04
"""Share of the samples below which a group counts as stray."""
ENOUGH = 24


def warn_if_disconnected(constraint: AbstractConstraint, contexts: ContextDistribution) -> None:
    """Warn when samples show a set in several pieces."""
    pieces, x = count_pieces(constraint, contexts)
    if pieces > 1:
        place = ", ".join(f"{value:.4g}" for value in x)
        warnings.warn(
            f"the set seems to be in {pieces} pieces at x=({place}): a map that learns it may put nearly all actions "
            "into one of them, whatever `recall` says. State them as cv.Union(one, other), whose map reaches all",
            DisconnectedSetWarning,
            stacklevel=4,
        )


def count_pieces(
    constraint: AbstractConstraint, contexts: ContextDistribution, *, seed: int = 0
) -> tuple[int, tuple[float, ...]]:
    """The largest number of pieces seen in a few contexts, and the context; 1 where samples are too few to tell."""
    if constraint.convex or constraint.action_dim == 0:
        return 1, ()
    keys = jax.random.split(jax.random.key(seed))
    x = contexts.sample(keys[0], CONTEXTS if contexts.size else 1)
    low, high = (side[:, None] for side in jax.vmap(constraint.bounds, axis_size=len(x))(x))
    drawn = low + jax.random.uniform(keys[1], (len(x), TRIES, constraint.action_dim)) * (high - low)
    inside = np.asarray(constraint.contains(x[:, None], drawn))
    found = FeasibleSamples(drawn, inside, np.zeros(len(x))).first(SAMPLES)
    most: tuple[int, tuple[float, ...]] = 1, ()
    for own, actions, accepted in zip(np.asarray(x), np.asarray(found.actions), found.accepted, strict=True):
        if accepted.sum() < ENOUGH:
            continue
        groups = _joined_along_the_set(
            constraint, own, actions[accepted], _straight(constraint, own, actions, accepted)
        )
        sizes = np.bincount(groups)
        pieces = int((sizes >= SMALLEST * len(groups)).sum())
        if pieces > most[0]:
            most = pieces, tuple(own.tolist())
    return most


def _straight(constraint: AbstractConstraint, x: np.ndarray, actions: np.ndarray, accepted: np.ndarray) -> np.ndarray:
    """Group numbers of the accepted actions, two of which share a group when straight ways join them."""
    shares = jnp.arange(1, STOPS + 1) / (STOPS + 1)
    ways = actions[:, None, None] + np.asarray(shares)[:, None] * (actions[None, :, None] - actions[:, None, None])
    joined: np.ndarray = np.all(np.asarray(constraint.contains(x, ways)), axis=2)
    return _groups(joined[np.ix_(accepted, accepted)])


def _groups(joined: np.ndarray) -> np.ndarray:
    """Connected components of a graph."""
    groups = np.full(len(joined), -1)
    for first in range(len(joined)):
        if groups[first] >= 0:
            continue
        number, open_ = groups.max() + 1, [first]
        groups[first] = number
        while open_:
            near = np.flatnonzero(joined[open_.pop()] & (groups < 0))
            groups[near] = number
            open_ += near.tolist()
    return groups


def _joined_along_the_set(
    constraint: AbstractConstraint, x: np.ndarray, actions: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """Groups merged where the projection of the straight way between their nearest members has no jump."""
    while groups.max() > 0:
        ends = [_nearest(actions, groups, k) for k in range(groups.max() + 1)]
        ways = np.stack([np.linspace(actions[i], actions[j], STEPS + 1) for i, j in ends])
        along = np.asarray(constraint.project(x, ways.astype(np.float32)))
        jumps = np.linalg.norm(np.diff(along, axis=1), axis=2).max(axis=1)
        length = np.linalg.norm(ways[:, -1] - ways[:, 0], axis=1)
        bridges = [end for end, jump, whole in zip(ends, jumps, length, strict=True) if jump <= 5 * whole / STEPS]
        joined = groups[:, None] == groups[None]
        for i, j in bridges:
            joined[i, j] = joined[j, i] = True
        merged = _groups(joined)
        if merged.max() == groups.max():
            return groups
        groups = merged
    return groups


def _nearest(actions: np.ndarray, groups: np.ndarray, group: int) -> tuple[int, int]:
    """The nearest pair of a member of `group` and one of another."""
    inside, outside = np.flatnonzero(groups == group), np.flatnonzero(groups != group)
    distance = np.linalg.norm(actions[inside][:, None] - actions[outside][None], axis=2)
    i, j = np.unravel_index(np.argmin(distance), distance.shape)
    return int(inside[i]), int(outside[j])
