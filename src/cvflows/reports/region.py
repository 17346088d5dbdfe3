"""A picture of the region that a learned constraint believes safe: how many actions it leaves in every state."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
from jaxtyping import Array

from cvflows.errors import ArgumentError
from cvflows.tasks.statewise import LearnedTask

GRID, ACTIONS, DOTS = 61, 128, 2000


def draw_region(found: LearnedTask, path: Path | str, entries: tuple[int, int], *, seed: int = 0) -> Path:
    """Save a picture over two observation entries: the share of actions that are allowed, and the states visited.

    **Arguments:**

    - `found`: what `task.learn` returned.
    - `entries`: indices of the two entries, across and up; the others are at their mean over visited states.
    """
    task = found.task
    across, up = entries
    if across == up or not all(0 <= index < task.observation_dim for index in entries):
        raise ArgumentError("entries", f"two different indices in [0, {task.observation_dim})", entries)
    visited = np.asarray(task.contexts.sample(jax.random.key(seed), DOTS))
    low, high = visited.min(axis=0), visited.max(axis=0)
    sides = [np.linspace(low[index], high[index], GRID) for index in entries]
    states = np.tile(visited.mean(axis=0), (GRID, GRID, 1)).astype(np.float32)
    states[..., across], states[..., up] = np.meshgrid(*sides)
    share = allowed_share(found, states.reshape(-1, task.observation_dim), seed).reshape(GRID, GRID)
    figure = matplotlib.figure.Figure(figsize=(6, 4.4), layout="constrained")
    axes = figure.subplots()
    shown = axes.pcolormesh(*sides, 100 * share, vmin=0, vmax=100, cmap="YlGnBu", shading="nearest")
    axes.contour(*sides, share, levels=[1 / ACTIONS], colors="firebrick", linewidths=1.5)
    axes.plot(visited[:, across], visited[:, up], ".", color="black", markersize=1, alpha=0.4)
    figure.colorbar(shown, label="actions allowed, %")
    form = found.learned.constraint.form
    axes.set(xlabel=f"s{across}", ylabel=f"s{up}", title=f"{task.name}, {form}: {task.limits}")
    axes.title.set_fontsize(9)
    axes.text(0, -0.16, "red: beyond it, no action is allowed; dots: visited", transform=axes.transAxes, fontsize=8)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=120)
    return target


def allowed_share(found: LearnedTask, states: np.ndarray, seed: int = 0) -> np.ndarray:
    """Share of random actions, and of the corners of the box, that are allowed in each of some states (n, o).

    Rows that no action satisfies are loosened where a guard needs an action; here they are not: 0 means none is safe.
    """
    constraint = found.learned.constraint
    rng = np.random.default_rng(seed)
    d = constraint.action_dim
    corners = rng.choice([-1.0, 1.0], (ACTIONS // 4, d))
    actions = jnp.asarray(np.concatenate([rng.uniform(-1, 1, (ACTIONS - len(corners), d)), corners]), jnp.float32)

    def share(s: Array) -> Array:
        offset, normal = constraint.claims(s)
        rows = offset[:, None] + jnp.einsum("rd,nd->rn", normal, actions)
        return jnp.mean(jnp.all(rows <= 0, axis=0))

    return np.asarray(jax.lax.map(share, jnp.asarray(states, jnp.float32)))
