"""Gymnasium's pendulum with a motor of any strength.

    θ̈ = 15 sin θ + 3·torque·a

With its usual torque of 2, gravity is stronger than the motor; above 5 it is not.
"""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from gymnasium.wrappers import TimeLimit

from cvflows.errors import positive

STEPS = 200


def pendulum(*, torque: float = 2.0, render_mode: str | None = None) -> gymnasium.Env[np.ndarray, np.ndarray]:
    """The pendulum with that largest torque; episodes of 200 steps. Observation: cos θ, sin θ, θ̇ (3)."""
    env = PendulumEnv(render_mode=render_mode)
    env.max_torque = positive("torque", torque)
    env.action_space = spaces.Box(-env.max_torque, env.max_torque, (1,), np.float32)
    return TimeLimit(env, STEPS)
