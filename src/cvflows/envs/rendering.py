"""Pictures of environments without a screen."""

from __future__ import annotations

import os
import sys

import numpy as np

from cvflows.envs.worlds import Env

PACKAGES = "libegl1 libegl-mesa0 (with MUJOCO_GL=egl) or libosmesa6 (with MUJOCO_GL=osmesa)"


def prepare() -> None:
    """Let MuJoCo draw off-screen where there is no display; must come before MuJoCo is loaded."""
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")


def picture(env: Env) -> tuple[np.ndarray | None, str]:
    """What `env.render()` returns, or None and what to install."""
    try:
        frame = env.render()
    except Exception as error:  # MuJoCo's back ends raise errors of many types
        return None, f"no picture ({type(error).__name__}): MuJoCo draws off-screen with Debian's {PACKAGES}"
    if frame is None:
        return None, "no picture: the environment was not made with render_mode='rgb_array'"
    return np.asarray(frame), ""
