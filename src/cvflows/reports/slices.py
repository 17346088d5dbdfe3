"""Which two-dimensional slice of a set a picture shows, and in which contexts."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from cvflows.tasks.base import Task


class Plane(NamedTuple):
    """A grid of contexts (n, context_dim) and actions (n, action_dim), and what its two sides show."""

    x: np.ndarray
    a: np.ndarray
    sides: tuple[np.ndarray, np.ndarray]
    labels: tuple[str, str]


def plane(context: np.ndarray, dim: int, reach: float, count: int, spread: tuple[float, float]) -> Plane:
    """A grid over the first two actions, the others 0; with one action, over it and the first entry of the context."""
    a = np.zeros((count * count, dim), np.float32)
    x = np.broadcast_to(context, (count * count, len(context))).astype(np.float32)
    up = np.linspace(-reach, reach, count)
    if dim > 1 or not len(context):
        across, labels = up, ("$a_1$", "$a_2$")
        first, second = np.meshgrid(across, up)
        a[:, 0] = first.ravel()
        if dim > 1:
            a[:, 1] = second.ravel()
    else:
        across, labels = np.linspace(*spread, count), ("$x_1$", "$a_1$")
        first, second = np.meshgrid(across, up)
        x[:, 0], a[:, 0] = first.ravel(), second.ravel()
    return Plane(x, a, (across, up), labels)


def spread_of(task: Task) -> tuple[float, float]:
    """Least and largest value of the first entry of the context, for pictures of a single action."""
    if not task.contexts.size:
        return -1.0, 1.0
    first = np.asarray(task.contexts.sample(jax.random.key(0), 2048))[:, 0]
    return float(first.min()), float(first.max())


def chosen_contexts(task: Task, seed: int, count: int) -> np.ndarray:
    """Contexts to show: any, or for limits on states some that leave little, half and most of the actions."""
    key = jax.random.key(seed)
    if task.limits is None or not task.contexts.size:
        return np.asarray(task.contexts.sample(key, count if task.contexts.size else 1))
    x = np.asarray(task.contexts.sample(key, 1024))
    a = jax.random.uniform(key, (1, 128, task.action_dim), minval=-1.0, maxval=1.0)
    share = np.asarray(task.constraint.contains(x[:, None], a)).mean(axis=1)
    aims = (0.3, 0.6, 0.9)[:count] if task.action_dim > 1 else (0.3,)
    return x[[int(np.abs(share - aim).argmin()) for aim in aims]]


def title_of(context: np.ndarray | jax.Array, dim: int) -> str:
    """A context as a title; with one action, its first entry is an axis of the picture."""
    values = [f"{value:.2g}" for value in np.asarray(context)]
    return "x = (" + ", ".join(values if dim > 1 else ["·", *values[1:]]) + ")"
