"""Pictures of tasks: what is allowed, where forbidden actions are sent, and what the environment looks like."""

from __future__ import annotations

from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cvflows.constraints.base import AbstractConstraint
from cvflows.envs.rendering import picture
from cvflows.reports.slices import chosen_contexts, plane, spread_of, title_of
from cvflows.tasks.base import Task

ALLOWED, EDGE, ARROW, START, END = "#cfe8dc", "#1b7f5a", "#8a8f98", "#c8553d", "#1f4e79"
REACH = 1.35
"""Half-width of a picture: the action box is [-1,1]."""


class Drawing(TypedDict):
    """What was drawn, and what was missing to draw the environment."""

    task: str
    picture: str
    panels: int
    projected: int
    missing: NotRequired[str]


def draw_task(task: Task, path: Path, *, seed: int = 0) -> Drawing:
    """Write a PNG of the environment and of slices of the task's set with projected points."""
    constraint = task.constraint
    contexts = chosen_contexts(task, seed, 3)
    frame, missing = _environment(task, seed)
    panels = len(contexts) + (frame is not None)
    figure = Figure(figsize=(4.6 * panels + 0.6, 5.4), layout="constrained")
    FigureCanvasAgg(figure)
    rng, spread = np.random.default_rng(seed), spread_of(task)
    projected = 0
    for panel, context in enumerate(contexts):
        axes = figure.add_subplot(1, panels, panel + 1)
        projected += _draw_slice(axes, constraint, context, rng, spread)
        if constraint.context_dim:
            axes.set_title(title_of(context, task.action_dim), fontsize=8, wrap=True)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    if frame is not None:
        axes = figure.add_subplot(1, panels, panels)
        axes.imshow(frame)
        axes.set_axis_off()
        axes.set_title(task.environment, fontsize=8)
    others = [f"$a_{index}$" for index in range(3, task.action_dim + 1)]
    rest = f"   (slice at {' = '.join(others)} = 0)" if others else ""
    figure.suptitle(f"{task.name}:  {task.formula}{rest}", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    drawn: Drawing = {"task": task.name, "picture": str(path), "panels": panels, "projected": projected}
    if missing:
        drawn["missing"] = missing
    return drawn


def _environment(task: Task, seed: int) -> tuple[np.ndarray | None, str]:
    """A picture of the environment after a few allowed steps, or None and what it would need."""
    env = task.make_env(guard=True, render_mode="rgb_array")
    env.reset(seed=seed)
    env.action_space.seed(seed)
    for _ in range(5):
        env.step(env.action_space.sample())
    frame, missing = picture(env)
    env.close()
    return frame, missing


def _draw_slice(
    axes: Axes,
    constraint: AbstractConstraint,
    context: np.ndarray,
    rng: np.random.Generator,
    spread: tuple[float, float],
) -> int:
    """One panel: the set in the plane of the first two actions, and random actions with their projections."""
    dim, side = constraint.action_dim, 401
    shown = plane(context, dim, REACH, side, spread)
    across, up = shown.sides
    inside = np.asarray(constraint.contains(shown.x, shown.a))
    if not inside.any():  # an equality is thinner than a pixel: show what is within a pixel of it
        inside = np.asarray(constraint.violation(shown.x, shown.a)) < 2 * REACH / side
    inside = inside.reshape(side, side)
    axes.contourf(across, up, inside, levels=[0.5, 1.5], colors=[ALLOWED])
    axes.contour(across, up, inside, levels=[0.5], colors=[EDGE], linewidths=1.2)
    ends = (-1, 1) if dim > 1 else (across[0], across[-1])
    corners = [ends[0], ends[1], ends[1], ends[0], ends[0]]
    axes.plot(corners, [-1, -1, 1, 1, -1], color="#444444", lw=1, ls=":", label="action box")

    x = np.repeat(context[None], 70, axis=0).astype(np.float32)
    actions = np.zeros((70, dim), np.float32)
    actions[:, :2] = rng.uniform(-1.3, 1.3, (70, min(dim, 2)))
    if dim == 1 and len(context):
        x[:, 0] = rng.uniform(*spread, 70)
    forbidden = ~np.asarray(constraint.contains(x, actions))
    x, actions = x[forbidden], actions[forbidden]
    landed = np.asarray(constraint.project(x, actions))
    start, end = actions[:, :2], landed[:, :2]
    if dim == 1:
        start, end = (np.concatenate([x[:, :1], points], axis=1) for points in (start, end))
    for tail, head in zip(start, end, strict=True):
        arrow = {"arrowstyle": "-|>", "color": ARROW, "lw": 0.7, "shrinkA": 2, "shrinkB": 2, "mutation_scale": 7}
        axes.annotate("", xy=head, xytext=tail, arrowprops=arrow)
    axes.scatter(start[:, 0], start[:, 1], s=13, color=START, zorder=3, label="forbidden action")
    axes.scatter(end[:, 0], end[:, 1], s=13, color=END, zorder=3, label="nearest allowed action")
    axes.set(xlim=(across[0], across[-1]), ylim=(-REACH, REACH), xlabel=shown.labels[0], ylabel=shown.labels[1])
    axes.set_aspect("equal" if dim > 1 else "auto")
    return len(actions)
