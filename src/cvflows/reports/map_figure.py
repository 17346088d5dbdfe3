"""Picture of a fitted map: its action density over a slice of the set, how its actions move, how the fit went."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from cvflows.constraints.base import all_rows
from cvflows.constraints.sample import rejection_samples
from cvflows.maps.base import ActionMap, draw_latents, from_box, is_covered, log_base
from cvflows.maps.fit import Check
from cvflows.reports.slices import chosen_contexts, plane, spread_of, title_of
from cvflows.tasks.base import Task

SIDE = 240
GRID = 11
"""Lines of the grid of latents, each way."""
COLOURS = ("#1f4e79", "#e08e45")


def draw_map(map_: ActionMap, task: Task, checks: Sequence[Check], path: Path, *, seed: int = 0) -> Path:
    """Write a PNG: density over (a₁, a₂) in up to two contexts, one grid of latents in both, checks of the fit."""
    contexts = jnp.asarray(chosen_contexts(task, seed, 2))
    spread = spread_of(task)
    moves = len(contexts) > 1 and task.action_dim > 1
    panels = len(contexts) + moves + bool(checks)
    columns = 2 if panels == 4 else panels
    figure = Figure(figsize=(4.7 * columns + 0.8, 4.8 * panels / columns), layout="constrained")
    FigureCanvasAgg(figure)
    image = None
    for index, x in enumerate(contexts):
        axes = figure.add_subplot(panels // columns, columns, index + 1)
        image = _draw_density(axes, map_, x, spread)
        if len(x):
            axes.set_title(title_of(x, task.action_dim), fontsize=7, wrap=True)
    if image is not None:
        bar = figure.colorbar(image, ax=figure.axes[: len(contexts)], shrink=0.75, pad=0.02)
        bar.set_label("density / uniform density", fontsize=9)
    if moves:
        _draw_moves(figure.add_subplot(panels // columns, columns, len(contexts) + 1), map_, contexts)
    if checks:
        _draw_checks(figure.add_subplot(panels // columns, columns, panels), checks)
    others = [f"$a_{index}$" for index in range(3, task.action_dim + 1)]
    rest = f"   (slice at {' = '.join(others)} = 0)" if others else ""
    figure.suptitle(f"{task.name}:  {task.formula}{rest}", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path


@eqx.filter_jit
def _density(
    map_: ActionMap, actions: Float[Array, "n dim"], contexts: Float[Array, "n context"]
) -> tuple[Float[Array, n], Bool[Array, n], Float[Array, n]]:
    """Log-density, whether the latent is within reach, and the largest row."""

    def at(action: Array, x: Array) -> tuple[Array, Array, Array]:
        latent, log_det = map_.inverse(action, x)
        largest = jnp.max(all_rows(map_.constraint, x, action))
        return log_base(map_.base, latent) + log_det, is_covered(map_.base, latent), largest

    return jax.vmap(at)(actions, contexts)


def _draw_density(axes: Axes, map_: ActionMap, x: Array, spread: tuple[float, float]) -> AxesImage:
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
    aspect: Literal["equal", "auto"] = "equal" if dim > 1 else "auto"
    image = axes.imshow(ratio, extent=extent, origin="lower", cmap="viridis", vmin=0, vmax=2, aspect=aspect)
    axes.contour(across, up, worst, levels=[0.0], colors=["#d1495b"], linewidths=1.3)
    axes.set(xlabel=shown.labels[0], ylabel=shown.labels[1])
    return image


def _log_lengths(worst: np.ndarray, pixel: float) -> np.ndarray:
    """Log-length of the allowed interval in every column of a picture of one action."""
    return np.log(np.maximum((worst <= 0).sum(axis=0, keepdims=True), 1) * pixel)


def _draw_histogram(axes: Axes, map_: ActionMap, x: Array, reach: float) -> AxesImage:
    """Histogram of the map's actions in (a₁, a₂), whatever their other entries."""
    latents = draw_latents(map_.base, jax.random.key(0), 40_000, map_.constraint.action_dim)
    actions = np.asarray(eqx.filter_jit(jax.vmap(lambda latent: map_.forward(latent, x)[0]))(latents))
    counts, across, up = np.histogram2d(actions[:, 0], actions[:, 1], bins=60, range=[[-1.05, 1.05]] * 2)
    ratio = np.where(counts > 0, counts / counts[counts > 0].mean(), np.nan)
    extent = (across[0], across[-1], up[0], up[-1])
    axes.set(xlabel="$a_1$", ylabel="$a_2$")
    return axes.imshow(ratio.T, extent=extent, origin="lower", cmap="viridis", vmin=0, vmax=2, aspect="equal")


def _draw_moves(axes: Axes, map_: ActionMap, contexts: Float[Array, "2 context"]) -> None:
    """Actions of one grid of latents in two contexts, one over the other: a calm map moves few of its lines."""
    fine, lines = np.linspace(-0.99, 0.99, 8 * GRID + 1), np.linspace(-0.99, 0.99, GRID)
    u = np.zeros((2, GRID, len(fine), map_.constraint.action_dim), np.float32)
    u[0, ..., 0], u[0, ..., 1] = lines[:, None], fine
    u[1, ..., 0], u[1, ..., 1] = fine, lines[:, None]

    def act(u: Array, x: Array) -> Array:
        return map_.forward(from_box(map_.base, u)[0], x)[0]

    drawn = eqx.filter_jit(jax.vmap(lambda x: jax.vmap(lambda u: act(u, x))(u.reshape(-1, u.shape[-1]))))(contexts)
    shown = np.asarray(drawn).reshape(2, 2 * GRID, len(fine), u.shape[-1])[..., :2]
    for place, actions in enumerate(shown):
        kept = axes.plot(*actions.T, color=COLOURS[place], lw=(2.2, 0.9)[place])
        kept[0].set_label(f"{('left', 'right')[place]} context")
    start, end = shown[:, 1:GRID:3, ::16].reshape(2, -1, 2)  # few, and off the middle: a mirror image shows too
    across: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1.0}  # arrows as long as the moves
    axes.quiver(*start.T, *(end - start).T, label="moves", width=0.006, color="#c8553d", zorder=3, **across)
    axes.set(xlabel="$a_1$", ylabel="$a_2$", aspect="equal", title="one grid of latents in both contexts")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, fontsize=8, frameon=False)


def _draw_checks(axes: Axes, checks: Sequence[Check]) -> None:
    steps = [check.step for check in checks]
    axes.plot(steps, [100 * check.accuracy for check in checks], marker="o", ms=3, label="accuracy", color="#1f4e79")
    axes.plot(steps, [100 * check.recall for check in checks], marker="s", ms=3, label="recall", color="#c8553d")
    lowest = min(100 * min(check.accuracy, check.recall) for check in checks)
    axes.set(xlabel="gradient step", ylabel="%", ylim=(max(0.0, min(90.0, lowest - 2)), 100.5), title="during the fit")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
