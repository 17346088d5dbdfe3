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
from cvflows.maps.base import ActionMap, draw_latents, is_covered, log_base
from cvflows.maps.fit import Check
from cvflows.reports.slices import chosen_contexts, plane, spread_of, title_of
from cvflows.tasks.base import Task

SIDE = 240


def draw_map(map_: ActionMap, task: Task, checks: Sequence[Check], path: Path, *, seed: int = 0) -> Path:
    """Write a PNG: density over (a₁, a₂) in up to two contexts, accuracy and recall during the fit."""
    contexts = jnp.asarray(chosen_contexts(task, seed, 2))
    spread = spread_of(task)
    panels = len(contexts) + (1 if checks else 0)
    figure = Figure(figsize=(4.7 * panels + 0.8, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    image = None
    for index, x in enumerate(contexts):
        axes = figure.add_subplot(1, panels, index + 1)
        image = _draw_density(axes, map_, x, spread)
        if len(x):
            axes.set_title(title_of(x, task.action_dim), fontsize=7, wrap=True)
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
def _density(map_: ActionMap, actions: Any, contexts: Any) -> tuple[Any, Any, Any]:
    """Log-density, whether the latent is within reach, and the largest row."""

    def at(action: Any, x: Any) -> tuple[Any, Any, Any]:
        latent, log_det = map_.inverse(action, x)
        largest = jnp.max(all_rows(map_.constraint, x, action))
        return log_base(map_.base, latent) + log_det, is_covered(map_.base, latent), largest

    return jax.vmap(at)(actions, contexts)


def _draw_density(axes: Any, map_: ActionMap, x: Any, spread: tuple[float, float]) -> Any:
    """Heat map of density over uniform density, with the set's edge; white where the map does not reach."""
    dim, constraint = map_.constraint.action_dim, map_.constraint
    samples = rejection_samples(constraint, x[None], jax.random.key(0), tries=65_536)
    inside = np.asarray(samples.actions)[samples.accepted]
    reach = 1.05 if dim == 1 else min(1.05, 1.15 * float(np.abs(inside[:, :2]).max(initial=0.2)))
    shown = plane(np.asarray(x), dim, reach, SIDE, spread)
    found = (np.asarray(value) for value in _density(map_, jnp.asarray(shown.a), jnp.asarray(shown.x)))
    log_density, covered, worst = (value.reshape(SIDE, SIDE) for value in found)
    if not (worst <= 0).any():  # an equality: its slab is thinner than a pixel, so show where actions fall
        return _draw_histogram(axes, map_, x, reach)
    volume = samples.log_volume[0] if dim > 1 else _log_lengths(worst, 2 * reach / SIDE)
    ratio = np.where(covered & (worst <= 1e-3), np.exp(log_density + volume), np.nan)
    across, up = shown.sides
    extent = (across[0], across[-1], up[0], up[-1])
    aspect = "equal" if dim > 1 else "auto"
    image = axes.imshow(ratio, extent=extent, origin="lower", cmap="viridis", vmin=0, vmax=2, aspect=aspect)
    axes.contour(across, up, worst, levels=[0.0], colors=["#d1495b"], linewidths=1.3)
    axes.set(xlabel=shown.labels[0], ylabel=shown.labels[1])
    return image


def _log_lengths(worst: np.ndarray, pixel: float) -> np.ndarray:
    """Log-length of the allowed interval in every column of a picture of one action."""
    return np.log(np.maximum((worst <= 0).sum(axis=0, keepdims=True), 1) * pixel)


def _draw_histogram(axes: Any, map_: ActionMap, x: Any, reach: float) -> Any:
    """Where the map's actions fall in (a₁, a₂), the other entries being what they are."""
    latents = draw_latents(map_.base, jax.random.key(0), 40_000, map_.constraint.action_dim)
    actions = np.asarray(eqx.filter_jit(jax.vmap(lambda latent: map_.forward(latent, x)[0]))(latents))
    counts, across, up = np.histogram2d(actions[:, 0], actions[:, 1], bins=60, range=[[-1.05, 1.05]] * 2)
    ratio = np.where(counts > 0, counts / counts[counts > 0].mean(), np.nan)
    extent = (across[0], across[-1], up[0], up[-1])
    axes.set(xlabel="$a_1$", ylabel="$a_2$")
    return axes.imshow(ratio.T, extent=extent, origin="lower", cmap="viridis", vmin=0, vmax=2, aspect="equal")


def _draw_checks(axes: Any, checks: Sequence[Check]) -> None:
    steps = [check.step for check in checks]
    axes.plot(steps, [100 * check.accuracy for check in checks], marker="o", ms=3, label="accuracy", color="#1f4e79")
    axes.plot(steps, [100 * check.recall for check in checks], marker="s", ms=3, label="recall", color="#c8553d")
    lowest = min(100 * min(check.accuracy, check.recall) for check in checks)
    axes.set(xlabel="gradient step", ylabel="%", ylim=(max(0.0, min(90.0, lowest - 2)), 100.5), title="during the fit")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
