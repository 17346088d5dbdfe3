"""The form `backup`: a region of states that a learned feedback law never leaves, as half-spaces.

Under the law a = a* - K(z - z*) of `feedback.py`, z' - z* = Φ(z - z*). So a limit h·z ≤ g holds for ever if
h·Φᵗ(z - z*) ≤ g - h·z* for all t, and the law stays in the action box if |a* - KΦᵗ(z - z*)| ≤ 1. Finitely many of these
half-spaces matter: the maximal admissible set (Gilbert and Tan, 1991). Φ passes the error of a step on, so the t-th
bound is tightened by the errors of t steps.

An action is allowed if the next state is in the region. Inside, the law's own action is one, so that limits do not
contradict each other. Errors are those of steps from the region, as far as it is known without them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from cvflows.constraints.feedback import Dynamics, Law, feedback, fit_dynamics
from cvflows.constraints.learned import Costs, LearnedConstraint, Transitions
from cvflows.constraints.learning import Learned, Signal, calibrated, from_safe_states, hold_out
from cvflows.constraints.ranges import Limits, Planes, Ranges
from cvflows.constraints.signals import Polynomial
from cvflows.errors import ArgumentError, UnenforceableLimitError

EFFORTS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Prices of an action, relative to a state as large as its spread, whose laws are compared."""
HORIZON = 200
FEWEST = 300
"""Transitions from a region that dynamics are fitted to."""


class Region(NamedTuple):
    """{z: faces·z ≤ bounds}; the first faces are the limits."""

    faces: np.ndarray
    bounds: np.ndarray

    def holds(self, z: np.ndarray) -> np.ndarray:
        """Which states of a table are in it."""
        return np.asarray((z @ self.faces.T <= self.bounds).all(axis=1))


class Found(NamedTuple):
    """A law's region, the dynamics it is a region of, the steps that calibrate it, and what it promises."""

    region: Region
    dynamics: Dynamics
    data: Transitions
    held_out: np.ndarray
    alpha: float | None
    share: float


def learn_backup(
    transitions: Transitions, limits: Costs, *, family: str | None, alpha: float | None, seed: int
) -> Learned:
    """The constraint of the form `backup`; see `cvflows.learn`.

    `Learned.alpha` is larger than `alpha` where the steps from the region are too few to promise that.
    """
    if not isinstance(limits, Ranges | Planes):
        raise ArgumentError("cost", "`Ranges` or `Planes` for the form 'backup', whose limits are linear", limits)
    if family not in (None, "affine"):
        raise ArgumentError("family", "affine, the one that the form 'backup' has", family)
    data = from_safe_states(transitions, limits)
    held_out = hold_out(len(data), alpha, seed)
    found = [one for effort in EFFORTS if (one := _region(data, held_out, limits, effort, alpha)) is not None]
    if not found:
        raise UnenforceableLimitError(
            "no linear feedback law was found that keeps the limits: a step is predicted too badly, or actions are too "
            "weak. Widen the limits, collect more episodes, or raise `alpha`, which allows for more steps that are "
            "predicted worse"
        )
    best = max(found, key=lambda one: one.share)
    constraint = _constraint(best, data.before.shape[1])
    signals = _signals(constraint, best, limits.count)
    return Learned(constraint, "affine", len(data), signals, best.alpha)


def _region(
    data: Transitions, held_out: np.ndarray, limits: Limits, effort: float, alpha: float | None
) -> Found | None:
    """The region of the law with this `effort`: without errors, then with those of steps from there."""
    normals, bounds = limits.faces(data.before.shape[1])
    near = np.ones(len(data), bool)
    for last in (False, True):
        dynamics = fit_dynamics(data[near & ~held_out], np.flatnonzero(normals.any(axis=0)))
        law = feedback(dynamics, effort)
        if law is None:
            return None
        walls = normals[:, dynamics.entries] * dynamics.scale
        ends = bounds - normals[:, dynamics.entries] @ dynamics.centre
        z = dynamics.standardised(data.before)
        if not last:
            nominal = admissible(law, walls, ends, None)
            inside = nominal.holds(z) if nominal is not None else near
            near = inside if (inside & ~held_out).sum() >= FEWEST else near
    assert law is not None
    if alpha is not None:
        alpha = max(alpha, 1 / (1 + int((near & held_out).sum())))
    errors = _errors(dynamics, law, data[near])
    region = admissible(law, walls, ends, (errors[~held_out[near]], errors[held_out[near]], alpha))
    if region is None:
        return None
    return Found(region, dynamics, data[near], held_out[near], alpha, float(region.holds(z).mean()))


def _errors(dynamics: Dynamics, law: Law, data: Transitions) -> np.ndarray:
    """What a step under the law may miss: the error of the dynamics, and what the law's linear path leaves out."""
    z = dynamics.standardised(data.before)
    linear = law.rest + (z - law.rest) @ law.closed.T
    missed = dynamics.standardised(data.after) - dynamics.predict(z, data.actions)
    action = law.action - (z - law.rest) @ law.K.T
    within = (np.abs(action) <= 1).all(axis=1, keepdims=True)
    return missed + np.where(within, dynamics.predict(z, law(z)) - linear, 0.0)


def admissible(
    law: Law, walls: np.ndarray, ends: np.ndarray, errors: tuple[np.ndarray, np.ndarray, float | None] | None
) -> Region | None:
    """The largest region within walls·z ≤ ends that the law never leaves; None where it is empty.

    `errors` of a step (n, entries): some, held-out ones, and α, as `calibrated` takes them; None: there are none.
    """
    rows = np.concatenate([walls, law.K, -law.K])
    room = np.concatenate([ends - walls @ law.rest, 1 + law.action, 1 - law.action])
    faces, bounds = np.zeros((0, rows.shape[1])), np.zeros(0)
    for _ in range(HORIZON):
        if (room <= 0).any():
            return None
        new = [i for i in range(len(rows)) if not len(faces) or _cuts(faces, bounds, rows[i], float(room[i]))]
        if not new:
            break
        faces, bounds = np.concatenate([faces, rows[new]]), np.concatenate([bounds, room[new]])
        if errors is not None:
            some, held_out, alpha = errors
            room = room - calibrated(some @ rows.T, held_out @ rows.T, alpha)
        rows = rows @ law.closed
    else:
        return None
    keep = list(range(len(faces)))
    for index in range(len(walls), len(faces)):
        others = [other for other in keep if other != index]
        if not _cuts(faces[others], bounds[others], faces[index], float(bounds[index])):
            keep = others
    return Region(faces[keep], bounds[keep] + faces[keep] @ law.rest)


def _cuts(faces: np.ndarray, bounds: np.ndarray, row: np.ndarray, end: float) -> bool:
    """Whether row·z ≤ end takes something off {faces·z ≤ bounds}."""
    table, ends = np.vstack([faces, row]), np.append(bounds, end + abs(end) + 1)
    furthest = linprog(-row, A_ub=table, b_ub=ends, bounds=(None, None))
    return not (furthest.status == 0 and -furthest.fun <= end + 1e-7)


def _constraint(found: Found, size: int) -> LearnedConstraint:
    """The faces of the region as costs, and how an action changes them."""
    region, dynamics = found.region, found.dynamics
    normals = np.zeros((len(region.faces), size))
    normals[:, dynamics.entries] = region.faces / dynamics.scale
    faces = Planes(normals, region.bounds + normals[:, dynamics.entries] @ dynamics.centre)
    weights = np.zeros((len(normals), dynamics.weights.shape[1], 1 + size))
    weights[:, :, np.append(0, 1 + dynamics.entries)] = np.einsum("fe,eij->fij", region.faces, dynamics.weights)
    centre, scale = np.zeros(size), np.ones(size)
    centre[dynamics.entries], scale[dynamics.entries] = dynamics.centre, dynamics.scale
    model = Polynomial(*(np.asarray(part, np.float32) for part in (centre, scale, weights)))
    z, after = dynamics.standardised(found.data.before), dynamics.standardised(found.data.after)
    errors = (after - dynamics.predict(z, found.data.actions)) @ region.faces.T
    error = calibrated(errors[~found.held_out], errors[found.held_out], found.alpha)
    nothing = (0.0,) * len(error)
    return LearnedConstraint(faces, "backup", model, nothing, nothing, tuple(map(float, error)))


def _signals(constraint: LearnedConstraint, found: Found, count: int) -> tuple[Signal, ...]:
    """What is known of the first `count` rows, which are the limits."""
    data = found.data
    c, following = (np.asarray(constraint.cost(table), float)[:, :count] for table in (data.before, data.after))
    change = following - c
    missed = change - constraint.model.predict(data.before, data.actions)[:, :count]
    strength = np.median(constraint.model.strength(data.after), axis=0)[:count]
    error = np.sqrt(np.mean(missed[found.held_out] ** 2, axis=0))
    columns = zip(error, np.abs(missed).max(axis=0), change.std(axis=0), strength, strict=True)
    return tuple(Signal(float(e), float(w), float(s), 0.0, 0.0, float(b), 0.0) for e, w, s, b in columns)
