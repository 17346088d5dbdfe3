"""The form `backup`: a region of states that a learned feedback law never leaves, as half-spaces.

From transitions, by least squares: s' ≈ As + Ba + e. The law a = a* - K(s - s*), which takes the state to rest at s*, is
the optimal one for quadratic costs (LQR). Under it, s' - s* = Φ(s - s*), Φ = A - BK, so each limit h·s ≤ g holds for ever
if h·Φᵗ(s - s*) ≤ g - h·s* for all t, and the law is within the action box if |a* - KΦᵗ(s - s*)| ≤ 1. These are half-spaces
of s, of which finitely many matter: the maximal admissible set (Gilbert and Tan, 1991). A step's error is passed on by Φ, so
the t-th bound is tightened by the sum of t one-step errors.

An action is allowed if the next state is in the region. Inside, the law's own action is one, so that limits never contradict
each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from cvflows.constraints.learned import Costs, LearnedConstraint, Transitions
from cvflows.constraints.learning import Learned, Signal, calibrated, from_safe_states, hold_out
from cvflows.constraints.ranges import Planes, Ranges
from cvflows.constraints.signals import Polynomial
from cvflows.errors import ArgumentError, UnenforceableLimitError

EFFORTS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Prices of an action, relative to a state as large as its spread, whose laws are compared."""
HORIZON = 200
MATTERS = 0.02
"""Of the spread of an entry's change: what another entry must explain to be part of its dynamics."""


class Linear(NamedTuple):
    """s' = As + Ba + e for some entries of an observation, in units of their spread around a centre."""

    entries: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    A: np.ndarray
    B: np.ndarray
    e: np.ndarray


class Region(NamedTuple):
    """{z: faces·z ≤ bounds}, the share of the visited safe states in it, and the law a = rest - K(z - z*) behind it."""

    faces: np.ndarray
    bounds: np.ndarray
    share: float
    law: tuple[np.ndarray, np.ndarray, np.ndarray]


def learn_backup(
    transitions: Transitions, limits: Costs, *, family: str | None, alpha: float | None, seed: int
) -> Learned:
    """The constraint of the form `backup`; see `cvflows.learn`."""
    if not isinstance(limits, Ranges | Planes):
        raise ArgumentError("cost", "`Ranges` or `Planes` for the form 'backup', whose limits are linear", limits)
    if family not in (None, "affine"):
        raise ArgumentError("family", "affine, the one that the form 'backup' has", family)
    data = from_safe_states(transitions, limits)
    held_out = hold_out(len(data), alpha, seed)
    size = data.before.shape[1]
    normals, bounds = limits.faces(size)
    linear = fit_linear(data[~held_out], np.flatnonzero(normals.any(axis=0)))
    missed = _missed(linear, data)
    walls = normals[:, linear.entries] * linear.scale
    ends = bounds - normals[:, linear.entries] @ linear.centre
    visited = (data.before[:, linear.entries] - linear.centre) / linear.scale
    found = [
        region
        for effort in EFFORTS
        if (region := admissible(linear, walls, ends, effort, missed, held_out, alpha, visited)) is not None
    ]
    if not found:
        raise UnenforceableLimitError(
            "no linear feedback law was found that keeps the limits: one step is predicted too badly, or actions are too "
            f"weak. Errors of a step, relative to the limits: {_relative(missed[held_out], walls, ends)}. Widen the "
            "limits, collect more episodes, or raise `alpha`, which allows more steps that are predicted worse"
        )
    best = max(found, key=lambda region: region.share)
    constraint = _constraint(linear, best, missed, held_out, alpha, size)
    signals = _signals(constraint, data, held_out, limits.count)
    return Learned(constraint, "affine", len(data), signals, alpha)


def fit_linear(data: Transitions, limited: np.ndarray) -> Linear:
    """Least squares for the entries that are `limited` and those that move them, directly or not."""
    centre, scale = data.before.mean(axis=0), data.before.std(axis=0)
    moving = scale > 1e-8
    scale = np.where(moving, scale, 1.0)
    z, after = (data.before - centre) / scale, (data.after - centre) / scale
    weights = _solve(z * moving, data.actions, after)
    spread = np.maximum((after - z).std(axis=0), 1e-12)
    matters = (np.abs(weights[:, : len(centre)] - np.eye(len(centre))) > MATTERS * spread[:, None]) & moving[None]
    chosen = np.zeros(len(centre), bool)
    chosen[limited] = True
    for _ in range(len(centre)):
        chosen |= matters[chosen].any(axis=0)
    entries = np.flatnonzero(chosen)
    o = len(entries)
    solved = _solve(z[:, entries], data.actions, after[:, entries])
    return Linear(entries, centre[entries], scale[entries], solved[:, :o], solved[:, o:-1], solved[:, -1])


def _solve(z: np.ndarray, actions: np.ndarray, after: np.ndarray) -> np.ndarray:
    design = np.concatenate([z, actions, np.ones((len(z), 1))], axis=1)
    gram = design.T @ design / len(z)
    gram[np.diag_indices_from(gram)] += 1e-9
    return np.linalg.solve(gram, design.T @ after / len(z)).T


def _missed(linear: Linear, data: Transitions) -> np.ndarray:
    """s' less what is predicted, in units of the spread."""
    z, after = ((table[:, linear.entries] - linear.centre) / linear.scale for table in (data.before, data.after))
    return after - z @ linear.A.T - data.actions @ linear.B.T - linear.e


def admissible(
    linear: Linear,
    walls: np.ndarray,
    ends: np.ndarray,
    effort: float,
    missed: np.ndarray,
    held_out: np.ndarray,
    alpha: float | None,
    visited: np.ndarray,
) -> Region | None:
    """The largest region within walls·z ≤ ends that the law of this `effort` never leaves; None where it is empty."""
    law = feedback(linear.A, linear.B, effort)
    if law is None:
        return None
    rest, action = resting(linear)
    closed = linear.A - linear.B @ law
    rows = np.concatenate([walls, law, -law])
    room = np.concatenate([ends - walls @ rest, 1 + action, 1 - action])
    faces, bounds = np.zeros((0, len(law.T))), np.zeros(0)
    for _ in range(HORIZON):
        if (room <= 0).any():
            return None
        new = [index for index in range(len(rows)) if not len(faces) or _cuts(faces, bounds, rows[index], room[index])]
        if len(faces) and not new:
            break
        new = new if len(faces) else list(range(len(rows)))
        faces, bounds = np.concatenate([faces, rows[new]]), np.concatenate([bounds, room[new]])
        errors = missed @ rows.T
        room = room - calibrated(errors[~held_out], errors[held_out], alpha)
        rows = rows @ closed
    keep = list(range(len(faces)))
    for index in range(len(walls), len(faces)):
        others = [other for other in keep if other != index]
        if not _cuts(faces[others], bounds[others], faces[index], bounds[index]):
            keep = others
    faces, bounds = faces[keep], bounds[keep] + faces[keep] @ rest
    share = float((visited @ faces.T <= bounds).all(axis=1).mean())
    return Region(faces, bounds, share, (law, rest, action))


def feedback(A: np.ndarray, B: np.ndarray, effort: float) -> np.ndarray | None:
    """K of the law that minimises Σ|z|² + effort·|a|², by iterating Riccati's equation; None where it does not settle."""
    P = np.eye(len(A))
    for _ in range(5000):
        K = np.linalg.solve(effort * np.eye(B.shape[1]) + B.T @ P @ B, B.T @ P @ A)
        following = np.eye(len(A)) + A.T @ P @ (A - B @ K)
        if not np.isfinite(following).all() or np.abs(following).max() > 1e12:
            return None
        if np.abs(following - P).max() <= 1e-9 * np.abs(P).max():
            break
        P = following
    return K if np.abs(np.linalg.eigvals(A - B @ K)).max() < 1 - 1e-6 else None


def resting(linear: Linear) -> tuple[np.ndarray, np.ndarray]:
    """(z*, a*) at which nothing changes, with little action and, of the resting states, nearest to the centre."""
    o, d = linear.B.shape
    system = np.concatenate([linear.A - np.eye(o), linear.B], axis=1)
    near = 1e-4 * np.eye(o + d)
    solved = np.linalg.lstsq(np.concatenate([system, near]), np.concatenate([-linear.e, np.zeros(o + d)]), rcond=None)[
        0
    ]
    return solved[:o], solved[o:]


def _cuts(faces: np.ndarray, bounds: np.ndarray, row: np.ndarray, end: float) -> bool:
    """Whether row·z ≤ end takes something off {faces·z ≤ bounds}."""
    inside = linprog(
        -row, A_ub=np.vstack([faces, row]), b_ub=np.append(bounds, end + abs(end) + 1), bounds=(None, None)
    )
    return not (inside.status == 0 and -inside.fun <= end + 1e-7)


def _constraint(
    linear: Linear, region: Region, missed: np.ndarray, held_out: np.ndarray, alpha: float | None, size: int
) -> LearnedConstraint:
    """The faces of the region as costs, and how an action changes them."""
    normals = np.zeros((len(region.faces), size))
    normals[:, linear.entries] = region.faces / linear.scale
    faces = Planes(normals, region.bounds + normals[:, linear.entries] @ linear.centre)
    weights = np.zeros((len(normals), 1 + linear.B.shape[1], 1 + size))
    weights[:, 0, 0] = region.faces @ linear.e
    weights[:, 0, 1 + linear.entries] = region.faces @ (linear.A - np.eye(len(linear.entries)))
    weights[:, 1:, 0] = region.faces @ linear.B
    centre, scale = np.zeros(size), np.ones(size)
    centre[linear.entries], scale[linear.entries] = linear.centre, linear.scale
    model = Polynomial(*(np.asarray(part, np.float32) for part in (centre, scale, weights)))
    errors = missed @ region.faces.T
    error = calibrated(errors[~held_out], errors[held_out], alpha)
    nothing = (0.0,) * len(error)
    return LearnedConstraint(faces, "backup", model, nothing, nothing, tuple(map(float, error)))


def _signals(constraint: LearnedConstraint, data: Transitions, held_out: np.ndarray, count: int) -> tuple[Signal, ...]:
    """What is known of the first `count` rows, which are the limits."""
    c, following = (np.asarray(constraint.cost(table), float)[:, :count] for table in (data.before, data.after))
    change = following - c
    missed = change - constraint.model.predict(data.before, data.actions)[:, :count]
    strength = np.median(constraint.model.strength(data.after), axis=0)[:count]
    error = np.sqrt(np.mean(missed[held_out] ** 2, axis=0))
    columns = zip(error, np.abs(missed).max(axis=0), change.std(axis=0), strength, strict=True)
    return tuple(Signal(float(e), float(w), float(s), 0.0, 0.0, float(b), 0.0) for e, w, s, b in columns)


def _relative(missed: np.ndarray, walls: np.ndarray, ends: np.ndarray) -> str:
    shares = np.abs(missed @ walls.T).max(axis=0) / np.maximum(np.abs(ends), 1e-12)
    return ", ".join(f"{share:.2g}" for share in shares)
