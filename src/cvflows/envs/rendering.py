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


def follow(env: Env) -> bool:
    """Let the camera follow a robot of MuJoCo's; returns whether its model has a camera that does.

    Gymnasium draws from where the robot began, and it walks out of the picture.
    """
    renderer, model = (getattr(env.unwrapped, name, None) for name in ("mujoco_renderer", "model"))
    if renderer is None or model is None:
        return False
    import mujoco

    camera = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, "track")
    if camera >= 0:
        renderer.camera_id = camera
    return bool(camera >= 0)


def picture(env: Env) -> tuple[np.ndarray | None, str]:
    """What `env.render()` returns, or None and what to install."""
    try:
        frame = env.render()
    except Exception as error:  # MuJoCo's back ends raise errors of many types
        return None, f"no picture ({type(error).__name__}): MuJoCo draws off-screen with Debian's {PACKAGES}"
    if frame is None:
        return None, "no picture: the environment was not made with render_mode='rgb_array'"
    return np.asarray(frame), ""
