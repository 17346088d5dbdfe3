"""The tasks' sets once more, in numpy and float64, written from their formulas and not from the library's code.

Each function takes contexts (n, c) and actions (n, d) and returns how far the worst row is above its bound, in units of
the bound, as the library normalises its rows; the action box is added by `excess`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Formula = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _ball(square: float) -> Formula:
    return lambda x, a: np.sum(a**2, axis=1) / square - 1


def _shell(inner: float, outer: float) -> Formula:
    return lambda x, a: np.maximum(np.sum(a**2, axis=1) / outer - 1, 1 - np.sum(a**2, axis=1) / inner)


def _spent(bound: float) -> Formula:
    return lambda x, a: np.sum(np.where(x * a > 0, x * a, 0.0), axis=1) / bound - 1


def _total(bound: float) -> Formula:
    return lambda x, a: np.sum(np.abs(x) * np.abs(a), axis=1) / bound - 1


def _power_and_lean(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    d = a.shape[1]
    lean = np.sum(a**2 * np.sin(x[:, d:]) ** 2, axis=1) / 0.1 - 1
    return np.maximum(_total(10.0)(x[:, :d], a), lean)


def _tip(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    first, both = a[:, 0], a[:, 0] + a[:, 1]
    return (first**2 + 2 * first * both * np.cos(x[:, 0]) + both**2) / 0.05 - 1


def _moment_arm(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    back = x[:, 0] * a[:, 0] * np.sin(x[:, 2] + x[:, 3] + x[:, 4])
    front = x[:, 1] * a[:, 3] * np.sin(x[:, 5] + x[:, 6] + x[:, 7])
    return (back + front) / 5.0 - 1


def _shares(total: float) -> Formula:
    return lambda x, a: np.abs(np.sum(a, axis=1) - total) - 1e-4


FORMULAS: dict[str, Formula] = {
    "R+L2": _ball(0.05),
    "R+D": _shell(0.04, 0.05),
    "H+M": _spent(10.0),
    "H+O+S": _power_and_lean,
    "H+D": _shell(1.4, 1.5),
    "W+M": _spent(10.0),
    "W+O+S": _power_and_lean,
    "HC+O": _total(20.0),
    "R+N": lambda x, a: np.full(len(a), -1.0),
    "R+O03": _total(0.3),
    "R+O10": _total(1.0),
    "R+O30": _total(3.0),
    "R+M": _spent(1.0),
    "R+T": _tip,
    "HC+MA": _moment_arm,
    "Ant+L2": _ball(2.0),
    "BSS3z": _shares(1.0),
    "BSS5z": _shares(2.5),
}


def excess(formula: Formula, x: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The worst row of every sample (n,), those of the action box included."""
    x, a = np.asarray(x, np.float64), np.asarray(a, np.float64)
    return np.maximum(formula(x, a), np.max(np.abs(a), axis=1) - 1)


def learned_formula(data: dict[str, Any]) -> Formula:
    """A learned constraint from the data it is stored as: `stopping`, or without momentum where φ is zero."""
    if data["model"] != "Polynomial":
        raise ValueError(f"no formula for the signal model {data['model']}")
    parameters = {name: np.asarray(value, np.float32).astype(np.float64) for name, value in data["parameters"].items()}
    weights, costs = parameters["weights"], []
    for index, low, _ in data["limits"]:
        costs.append((index, -1.0, -low))
    for index, _, high in data["limits"]:
        costs.append((index, 1.0, high))
    costs = [cost for cost in costs if math.isfinite(cost[2])]
    persistence, push, error = (np.array(data[name]) for name in ("persistence", "push", "error"))

    def worst(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        z = (x - parameters["centre"]) / parameters["scale"]
        features = [np.ones(len(x)), *z.T]
        if weights.shape[2] > len(features):
            size = z.shape[1]
            features += [z[:, i] * z[:, j] for i in range(size) for j in range(i, size)]
        table = np.stack(features, axis=1)
        rows = []
        for k, (index, sign, bound) in enumerate(costs):
            cost = sign * x[:, index] - bound
            drift, slope = table @ weights[k, 0], table @ weights[k, 1:].T
            strength = np.abs(slope).sum(axis=1)
            brake = np.maximum(strength - push[k], 0.1 * strength)
            curve = persistence[k] ** 2 / np.maximum(2 * brake, 1e-9)
            safe = np.minimum(cost, 0)
            room = np.where(cost > 0, -np.minimum(cost, strength), -2 * safe / (1 + np.sqrt(1 - 4 * curve * safe)))
            scale = np.maximum(strength, 1e-6)
            offset = np.minimum((drift + error[k] - room) / scale, 0.98 * strength / scale)
            rows.append(offset + np.sum(slope / scale[:, None] * a, axis=1))
        return np.max(rows, axis=0)

    return worst
