"""What MuJoCo says goes to Python's logging and warnings, not to the standard output that programs read.

On its own it prints warnings there, and appends them to a file in the working directory.
"""

from __future__ import annotations

import importlib
import logging
import sys
import warnings

import gymnasium

logger = logging.getLogger(__name__)


def hear_mujoco(maker: object) -> None:
    """Listen to MuJoCo before an environment is made of it, unless somebody else listens already."""
    spec = gymnasium.registry.get(maker) if isinstance(maker, str) else None
    if "mujoco" not in sys.modules and "mujoco" not in str(getattr(spec, "entry_point", "")):
        return
    mujoco = importlib.import_module("mujoco")
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(pass_on)


def pass_on(message: str) -> None:
    """A message of MuJoCo: what it says of a model's file is for its author, all else for whoever simulates."""
    if "deprecated" in message:
        logger.info("MuJoCo: %s", message)
    else:
        warnings.warn(f"MuJoCo: {message}", RuntimeWarning, stacklevel=2)
