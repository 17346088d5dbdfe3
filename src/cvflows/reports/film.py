"""A film of one episode."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from cvflows.envs.reading import observed
from cvflows.envs.rendering import follow, picture
from cvflows.errors import ArgumentError
from cvflows.runs.acting import episode_seed
from cvflows.runs.train import Trainer

LONGEST = 400
"""Frames of a film; longer episodes are cut."""


class Film(NamedTuple):
    """A file and its number of frames, or what is missing to draw them."""

    video: str | None = None
    frames: int = 0
    missing: str | None = None

    def as_json(self) -> dict[str, object]:
        """JSON-ready."""
        return {"missing": self.missing} if self.video is None else {"video": self.video, "frames": self.frames}


def film_episode(trainer: Trainer, path: Path, seed: int = 0) -> Film:
    """Play one episode without exploring and write its pictures as .gif; or say what is missing."""
    if path.suffix.casefold() != ".gif":
        raise ArgumentError("video", "a file name ending in .gif", path)
    task = trainer.task
    env = task.make_env(render_mode="rgb_array")
    follow(env)
    observation, _ = env.reset(seed=episode_seed(trainer.config.seed, 2, seed))
    frames: list[np.ndarray] = []
    done = False
    while not done and len(frames) < LONGEST:
        frame, missing = picture(env)
        if frame is None:
            env.close()
            return Film(missing=missing)
        frames.append(frame)
        seen = observed(env, observation, task.observation_dim)[None]
        chosen = trainer.guard(seen, trainer.decide(seen.astype(np.float32)))
        observation, _, terminated, truncated, _ = env.step(chosen.executed[0].copy())
        done = terminated or truncated
    frames.append(np.asarray(env.render()))
    speed = env.metadata.get("render_fps", 30)
    env.close()
    write_gif(frames, path, speed)
    return Film(str(path), len(frames))


def write_gif(frames: list[np.ndarray], path: Path, speed: float) -> None:
    """Animated GIF at about `speed` pictures per second."""
    from PIL import Image

    keep = max(1, round(speed / 20))  # browsers slow down above 50 pictures per second; 20 look smooth
    images = [Image.fromarray(frame).convert("P", palette=Image.Palette.ADAPTIVE) for frame in frames[::keep]]
    path.parent.mkdir(parents=True, exist_ok=True)
    duration = max(20, round(1000 * keep / speed))
    images[0].save(path, save_all=True, append_images=images[1:], duration=duration, loop=0)
