"""Pictures of a run: returns and violations over training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cvflows.runs.folder import RunFolder
from cvflows.runs.tally import Episode

BLUE, RED, GREY = "#1f4e79", "#c8553d", "#8a8f98"


def draw_run(folder: RunFolder) -> Path:
    """Write `curves.png` into a run folder: training and evaluation returns, violations before projection."""
    config = folder.config()
    episodes = [Episode.parse(row) for row in folder.table("metrics.csv")]
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    returns, violations = figure.subplots(1, 2)
    whole = [episode for episode in episodes if not episode.cut]
    if whole:
        steps, values = np.array([episode.step for episode in whole]), np.array([e.reward for e in whole])
        returns.plot(steps, values, ".", ms=2, color=GREY, alpha=0.5, label="training episodes")
        returns.plot(steps, _smooth(values), color=BLUE, lw=1, label="their running mean")
    evaluations = folder.table("evaluations.csv")
    if evaluations:
        at = [float(row["step"]) for row in evaluations]
        returns.plot(at, [float(row["return"]) for row in evaluations], "o-", ms=3, color=RED, label="evaluation")
    returns.set(xlabel="step", ylabel="return", title=f"{config.method} on {config.task}, seed {config.seed}")
    if episodes:
        steps = np.array([episode.step for episode in episodes])
        steps_so_far = np.maximum(np.cumsum([episode.length for episode in episodes]), 1)
        share = 100 * np.cumsum([episode.violations for episode in episodes]) / steps_so_far
        violations.plot(steps, share, color=BLUE, label="actions projected, so far")
        left = 100 * np.cumsum([episode.left for episode in episodes]) / np.arange(1, len(episodes) + 1)
        violations.plot(steps, left, color=RED, label="episodes that left the safe states, so far")
        violations.set_ylim(-0.05, max(1.0, 1.1 * float(np.max([share.max(), left.max()]))))
    violations.set(xlabel="step", ylabel="%", title="violations before projection")
    for axes in (returns, violations):
        axes.grid(alpha=0.3)
        if axes.lines:  # a short run has not ended an episode
            axes.legend(frameon=False, fontsize=8)
    path = folder.path / "curves.png"
    figure.savefig(path, dpi=130)
    return path


def _smooth(values: np.ndarray, share: float = 0.05) -> np.ndarray:
    """A running mean over a twentieth of the episodes."""
    width = max(1, round(share * len(values)))
    padded = np.concatenate([np.full(width - 1, values[:width].mean()), values])
    return np.convolve(padded, np.ones(width) / width, mode="valid")
