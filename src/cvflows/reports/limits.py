"""A picture of one episode: how much of its limit every action uses."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cvflows.constraints.base import TOLERANCE
from cvflows.envs.reading import observed, rewarded
from cvflows.runs.acting import episode_seed
from cvflows.runs.train import Trainer

BLUE, RED = "#1f4e79", "#c8553d"
LONGEST = 1000
"""Steps that are shown; longer episodes are cut."""


class Course(NamedTuple):
    """An episode step by step: `used` (steps,) the largest of 1 + g over the rows g ≤ 0, `actions` (steps, dim)."""

    used: np.ndarray
    actions: np.ndarray
    total: float
    """Sum of the rewards."""


def play_course(trainer: Trainer, seed: int = 0) -> Course:
    """One episode without exploring."""
    task, judge = trainer.task, trainer.guard.guard.judge
    env = trainer.make_env()
    observation, _ = env.reset(seed=episode_seed(trainer.config.seed, 2, seed))
    used: list[float] = []
    actions: list[np.ndarray] = []
    total, done = 0.0, False
    while not done and len(used) < LONGEST:
        seen = observed(env, observation, task.observation_dim)[None]
        action = trainer.guard(seen, trainer.decide(seen.astype(np.float32))).executed[0]
        rows = judge.rows(task.context(seen[0]).tolist(), action.tolist())[: -task.action_dim]
        used.append(1 + max(rows, default=-1.0))
        actions.append(action)
        observation, reward, terminated, truncated, _ = env.step(action.copy())
        total += rewarded(env, reward)
        done = terminated or truncated
    env.close()
    return Course(np.array(used), np.array(actions), total)


def draw_limits(trainer: Trainer, path: Path, seed: int = 0) -> Path:
    """Write a picture of an episode: the share of the limit that each action uses, and the actions."""
    course, config = play_course(trainer, seed), trainer.config
    figure = Figure(figsize=(10.5, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    steps = np.arange(len(course.used))
    above.fill_between(steps, 0, 100 * course.used, color=BLUE, alpha=0.25, lw=0)
    above.plot(steps, 100 * course.used, color=BLUE, lw=0.8, label="used by the action executed")
    above.axhline(100, color=RED, lw=1.5, label="the limit")
    over = int((course.used > 1 + TOLERANCE).sum())
    title = f"{config.method} on {config.task}: {over} of {len(steps):,} actions above the limit"
    above.set(title=f"{title}, return {course.total:,.0f}", ylabel="% of the limit")
    above.set_ylim(0, 100 * max(1.15, float(course.used.max()) + 0.05))
    above.legend(frameon=False, fontsize=8, ncols=2, loc="upper right")
    image = below.imshow(
        course.actions.T, aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest", origin="lower"
    )
    below.set(xlabel="step", ylabel="action entry", yticks=range(trainer.task.action_dim))
    figure.colorbar(image, ax=below, label="action", pad=0.01)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path
