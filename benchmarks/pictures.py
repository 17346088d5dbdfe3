"""Pictures of the documentation that no benchmark draws: `make docs-pictures`.

python -m benchmarks.pictures
"""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import cvflows as cv
from cvflows.reports.figures import ALLOWED, ARROW, EDGE, END, START

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
POWER, SPEEDS = cv.MaxPower(dim=2, bound=10), np.array([14.0, -8.0])
"""The limit of the task W+M, for two joints that turn at these speeds."""


def _draw_set(axes: Axes, reach: float) -> None:
    """Allowed actions, their edge and the action box."""
    side = np.linspace(-reach, reach, 300)
    grid = np.stack(np.meshgrid(side, side), axis=-1)
    allowed = np.asarray(POWER.contains(SPEEDS, grid), float)
    axes.contourf(side, side, allowed, levels=[0.5, 1.5], colors=[ALLOWED])
    axes.contour(side, side, allowed, levels=[0.5], colors=[EDGE], linewidths=1.5)
    axes.plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color=ARROW, lw=1, ls=":")
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    axes.set(xlabel="torque of the first joint", ylabel="torque of the second joint")
    for side_name in ("top", "right"):
        axes.spines[side_name].set_visible(False)


def draw_two_ways(path: Path) -> Path:
    """A guard moves forbidden actions onto the set; a map fills the set with the latent's own space."""
    figure = Figure(figsize=(9.6, 4.7), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _draw_set(left, 1.25)
    wanted = np.random.default_rng(3).uniform(-1, 1, (70, 2))
    wanted = wanted[~np.asarray(POWER.contains(SPEEDS, wanted))]
    nearest = np.asarray(POWER.project(SPEEDS, wanted))
    for start, end in zip(wanted, nearest, strict=True):
        left.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": ARROW, "lw": 0.9})
    left.scatter(*wanted.T, s=16, color=START, zorder=3)
    left.scatter(*nearest.T, s=16, color=END, zorder=3)
    left.set_title("guard: forbidden actions are replaced", fontsize=11)
    _draw_set(right, 1.25)
    map_ = cv.make_map("ray", POWER, cv.Uniform(2, -15, 15))
    lines, fine = np.linspace(-2.2, 2.2, 15), np.linspace(-2.6, 2.6, 160)
    forward = jax.jit(jax.vmap(lambda latent: map_.forward(latent, jnp.asarray(SPEEDS))[0]))
    for value in lines:
        for line in (np.stack([np.full_like(fine, value), fine], 1), np.stack([fine, np.full_like(fine, value)], 1)):
            right.plot(*np.asarray(forward(line.astype(np.float32))).T, color=END, lw=0.8)
    right.set_title("map: a grid of latents fills what is allowed", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path


def shrink_film(film: Path, path: Path, side: int = 220, colours: int = 48) -> Path:
    """The film of the demo, small enough for a README."""
    from PIL import Image, ImageSequence

    with Image.open(film) as whole:
        frames = [
            frame.convert("RGB").resize((side, side)).quantize(colours, dither=Image.Dither.NONE)
            for frame in ImageSequence.Iterator(whole)
        ]
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=whole.info["duration"], loop=0)
    return path


if __name__ == "__main__":
    print(draw_two_ways(IMAGES / "two-ways.png"))
    print(shrink_film(ROOT / "demo" / "walker.gif", IMAGES / "walker.gif"))
