"""Pictures of sets: what is allowed, and where forbidden actions are sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cvflows.constraints.base import AbstractConstraint
from cvflows.tasks.base import Task

ALLOWED, EDGE, ARROW, START, END = "#cfe8dc", "#1b7f5a", "#8a8f98", "#c8553d", "#1f4e79"
REACH = 1.35
"""Half-width of a picture: the action box is [-1,1]."""


def draw_task(task: Task, path: Path, *, seed: int = 0) -> dict[str, Any]:
    """Write a PNG of a 2-D slice of the task's set with projected points, and say what was drawn."""
    constraint = task.constraint
    panels = 3 if constraint.context_dim else 1
    contexts = np.asarray(task.contexts.sample(jax.random.key(seed), panels))
    figure = Figure(figsize=(4.6 * panels + 0.6, 5.4), layout="constrained")
    FigureCanvasAgg(figure)
    rng = np.random.default_rng(seed)
    projected = 0
    for panel, context in enumerate(contexts):
        axes = figure.add_subplot(1, panels, panel + 1)
        projected += _draw_slice(axes, constraint, context, rng)
        if constraint.context_dim:
            axes.set_title("x = (" + ", ".join(f"{value:.1f}" for value in context) + ")", fontsize=8, wrap=True)
    others = [f"$a_{index}$" for index in range(3, task.action_dim + 1)]
    rest = f"   (slice at {' = '.join(others)} = 0)" if others else ""
    figure.suptitle(f"{task.name}:  {task.formula}{rest}", fontsize=11)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return {"task": task.name, "picture": str(path), "panels": panels, "projected": projected}


def _draw_slice(axes: Any, constraint: AbstractConstraint, context: np.ndarray, rng: np.random.Generator) -> int:
    """One panel: the set in the plane of the first two actions, and random actions with their projections."""
    dim = constraint.action_dim
    side = np.linspace(-REACH, REACH, 401)
    grid = np.zeros((401 * 401, dim), np.float32)
    grid[:, :2] = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    inside = np.asarray(constraint.contains(context, grid)).reshape(401, 401)
    axes.contourf(side, side, inside, levels=[0.5, 1.5], colors=[ALLOWED])
    axes.contour(side, side, inside, levels=[0.5], colors=[EDGE], linewidths=1.2)
    axes.plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color="#444444", lw=1, ls=":", label="action box")

    actions = np.zeros((70, dim), np.float32)
    actions[:, :2] = rng.uniform(-1.3, 1.3, (70, 2))
    actions = actions[~np.asarray(constraint.contains(context, actions))]
    ends = np.asarray(constraint.project(context, actions))
    for start, end in zip(actions, ends, strict=True):
        arrow = {"arrowstyle": "-|>", "color": ARROW, "lw": 0.7, "shrinkA": 2, "shrinkB": 2, "mutation_scale": 7}
        axes.annotate("", xy=end[:2], xytext=start[:2], arrowprops=arrow)
    axes.scatter(actions[:, 0], actions[:, 1], s=13, color=START, zorder=3, label="forbidden action")
    axes.scatter(ends[:, 0], ends[:, 1], s=13, color=END, zorder=3, label="nearest allowed action")
    axes.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), aspect="equal", xlabel="$a_1$", ylabel="$a_2$")
    return len(actions)
