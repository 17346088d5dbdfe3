"""A linear feedback law from transitions: s' ≈ As + B(s)a + e by least squares, and the law to rest (LQR)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cvflows.constraints.learned import Transitions

MATTERS = 0.02
"""Of the spread of an entry's change: what another entry must explain to be part of its dynamics."""
RIDGE = 1e-9


class Dynamics(NamedTuple):
    """z' ≈ z + Σ_j u_j (W_j·(1, z)), u = (1, a), for some `entries` of an observation, z = (s - centre) / scale.

    `weights` has shape (entries, 1 + action_dim, 1 + entries): what an action does may depend on the state.
    """

    entries: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    weights: np.ndarray

    @property
    def A(self) -> np.ndarray:  # noqa: N802 - a matrix
        """How z' depends on z, without an action."""
        return np.eye(len(self.entries)) + self.weights[:, 0, 1:]

    @property
    def B(self) -> np.ndarray:  # noqa: N802 - a matrix
        """How z' depends on an action, at z = 0."""
        return self.weights[:, 1:, 0]

    @property
    def e(self) -> np.ndarray:
        """z' at z = 0, without an action."""
        return self.weights[:, 0, 0]

    def standardised(self, states: np.ndarray) -> np.ndarray:
        """z of observations (n, o)."""
        return np.asarray((states[:, self.entries] - self.centre) / self.scale)

    def predict(self, z: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """z' for tables of both."""
        return z + _design(z, actions) @ self.weights.reshape(len(self.entries), -1).T


def fit_dynamics(data: Transitions, limited: np.ndarray) -> Dynamics:
    """Least squares for the entries that are `limited` and those that move them, directly or not."""
    centre, scale = data.before.mean(axis=0), data.before.std(axis=0)
    moving = scale > 1e-8
    scale = np.where(moving, scale, 1.0)
    z, after = (data.before - centre) / scale, (data.after - centre) / scale
    plain = np.concatenate([z * moving, data.actions, np.ones((len(z), 1))], axis=1)
    pulls = np.abs(_least_squares(plain, after - z)[:, : len(centre)])
    matters = (pulls > MATTERS * np.maximum((after - z).std(axis=0), 1e-12)[:, None]) & moving[None]
    chosen = np.zeros(len(centre), bool)
    chosen[limited] = True
    for _ in range(len(centre)):
        chosen |= matters[chosen].any(axis=0)
    entries = np.flatnonzero(chosen)
    z, change = z[:, entries], (after - z)[:, entries]
    weights = _least_squares(_design(z, data.actions), change).reshape(len(entries), 1 + data.actions.shape[1], -1)
    return Dynamics(entries, centre[entries], scale[entries], weights)


def _design(z: np.ndarray, actions: np.ndarray) -> np.ndarray:
    ones = np.ones((len(z), 1))
    factors, features = np.concatenate([ones, actions], axis=1), np.concatenate([ones, z], axis=1)
    return (factors[:, :, None] * features[:, None, :]).reshape(len(z), -1)


def _least_squares(design: np.ndarray, target: np.ndarray) -> np.ndarray:
    gram = design.T @ design / len(design)
    gram[np.diag_indices_from(gram)] += RIDGE
    return np.linalg.solve(gram, design.T @ target / len(design)).T


class Law(NamedTuple):
    """a = action - K(z - rest), under which z' - rest = closed·(z - rest)."""

    K: np.ndarray
    rest: np.ndarray
    action: np.ndarray
    closed: np.ndarray

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """Its actions, within the box, at a table of states."""
        return np.clip(self.action - (z - self.rest) @ self.K.T, -1, 1)


def feedback(dynamics: Dynamics, effort: float) -> Law | None:
    """The law that minimises Σ|z|² + effort·|a|²; None where none takes every z to rest."""
    A, B, (o, d) = dynamics.A, dynamics.B, dynamics.B.shape
    P = np.eye(o)
    K = np.zeros((d, o))
    for _ in range(2000):
        K = np.linalg.solve(effort * np.eye(d) + B.T @ P @ B, B.T @ P @ A)
        following = np.eye(o) + A.T @ P @ (A - B @ K)
        if not np.isfinite(following).all() or np.abs(following).max() > 1e12:
            return None
        if np.abs(following - P).max() <= 1e-9 * np.abs(P).max():
            break
        P = following
    closed = A - B @ K
    if np.abs(np.linalg.eigvals(closed)).max() > 1 - 1e-6:
        return None
    system = np.concatenate([A - np.eye(o), B], axis=1)
    slight = 1e-4 * np.eye(o + d)  # of the states of rest, one near the centre, with little action
    target = np.concatenate([-dynamics.e, np.zeros(o + d)])
    solved = np.linalg.lstsq(np.concatenate([system, slight]), target, rcond=None)[0]
    return Law(K, solved[:o], solved[o:], closed)
