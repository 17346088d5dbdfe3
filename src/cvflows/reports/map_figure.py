"""Picture of a fitted map: its action density over a slice of the set, and how the fit went."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cvflows.constraints.base import all_rows
from cvflows.constraints.sample import rejection_samples
from cvflows.maps.base import ActionMap, is_covered, log_base
from cvflows.maps.fit import Check
from cvflows.tasks.base import Task

SIDE = 240


def draw_map(map_: ActionMap, task: Task, checks: Sequence[Check], path: Path, *, seed: int = 0) -> Path:
    """Write a PNG: density over (a₁, a₂) in up to two contexts, accuracy and recall during the fit."""
    contexts = task.contexts.sample(jax.random.key(seed), 2 if task.contexts.size else 1)
    panels = len(contexts) + (1 if checks else 0)
    figure = Figure(figsize=(4.7 * panels + 0.8, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    image = None
    for index, x in enumerate(contexts):
        axes = figure.add_subplot(1, panels, index + 1)
        image = _draw_density(axes, map_, x)
        if len(x):
            axes.set_title("x = (" + ", ".join(f"{value:.1f}" for value in np.asarray(x)) + ")", fontsize=7, wrap=True)
    if image is not None:
        bar = figure.colorbar(image, ax=figure.axes[: len(contexts)], shrink=0.75, pad=0.02)
        bar.set_label("density / uniform density", fontsize=9)
    if checks:
        _draw_checks(figure.add_subplot(1, panels, panels), checks)
    others = [f"$a_{index}$" for index in range(3, task.action_dim + 1)]
    rest = f"   (slice at {' = '.join(others)} = 0)" if others else ""
    figure.suptitle(f"{task.name}:  {task.formula}{rest}", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path


@eqx.filter_jit
def _density(map_: ActionMap, actions: Any, x: Any) -> tuple[Any, Any]:
    def at(action: Any) -> tuple[Any, Any]:
        latent, log_det = map_.inverse(action, x)
        return log_base(map_.base, latent) + log_det, is_covered(map_.base, latent)

    return jax.vmap(at)(actions)


def _draw_density(axes: Any, map_: ActionMap, x: Any) -> Any:
    """Heat map of density over uniform density, with the set's edge; white where the map does not reach."""
    dim, constraint = map_.constraint.action_dim, map_.constraint
    samples = rejection_samples(constraint, x[None], jax.random.key(0), tries=65_536)
    inside = np.asarray(samples.actions)[samples.accepted]
    reach = min(1.05, 1.15 * float(np.abs(inside[:, : min(dim, 2)]).max(initial=0.2)))
    side = np.linspace(-reach, reach, SIDE, dtype=np.float32)
    grid = np.zeros((SIDE * SIDE, dim), np.float32)
    plane = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    grid[:, : min(dim, 2)] = plane[:, : min(dim, 2)]
    log_density, covered = (np.asarray(value) for value in _density(map_, jnp.asarray(grid), x))
    ratio = np.where(covered, np.exp(log_density + samples.log_volume[0]), np.nan).reshape(SIDE, SIDE)
    worst = np.asarray(jax.vmap(lambda a: jnp.max(all_rows(constraint, x, a)))(jnp.asarray(grid))).reshape(SIDE, SIDE)
    image = axes.imshow(
        ratio, extent=(-reach, reach, -reach, reach), origin="lower", cmap="viridis", vmin=0, vmax=2, aspect="equal"
    )
    axes.contour(side, side, worst, levels=[0.0], colors=["#d1495b"], linewidths=1.3)
    axes.set(xlabel="$a_1$", ylabel="$a_2$")
    return image


def _draw_checks(axes: Any, checks: Sequence[Check]) -> None:
    steps = [check.step for check in checks]
    axes.plot(steps, [100 * check.accuracy for check in checks], marker="o", ms=3, label="accuracy", color="#1f4e79")
    axes.plot(steps, [100 * check.recall for check in checks], marker="s", ms=3, label="recall", color="#c8553d")
    lowest = min(100 * min(check.accuracy, check.recall) for check in checks)
    axes.set(xlabel="gradient step", ylabel="%", ylim=(max(0.0, min(90.0, lowest - 2)), 100.5), title="during the fit")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
