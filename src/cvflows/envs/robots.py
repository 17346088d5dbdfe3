"""Gymnasium's Hopper-v5, Walker2d-v5 and HalfCheetah-v5, stepped with less Python around MuJoCo.

The numbers are theirs to the last bit. Views of MuJoCo's arrays are made once, and two things are left out: checks of
actions beyond their size, and the forces of contacts, which these three neither observe nor reward.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium
import mujoco
import numpy as np
import numpy.typing as npt
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv
from gymnasium.envs.mujoco.hopper_v5 import HopperEnv
from gymnasium.envs.mujoco.mujoco_env import MujocoEnv
from gymnasium.envs.mujoco.walker2d_v5 import Walker2dEnv

from cvflows.envs.worlds import Env
from cvflows.errors import look_up

FASTEST = 10.0
"""Hopper and Walker2d observe speeds clipped at this."""
Numbers = npt.NDArray[np.float64]
Stepped = tuple[Numbers, np.float64, bool, bool, dict[str, np.float64]]


class Lean(MujocoEnv):
    """A robot that runs along x: `step` of Gymnasium's, for the class that is mixed in."""

    clipped: ClassVar[bool] = True
    """Whether observed speeds are clipped, and height is reported."""
    _forward_reward_weight: float
    _ctrl_cost_weight: float
    _healthy_reward: float
    _terminate_when_unhealthy: bool
    _healthy_state_range: tuple[float, float]
    _healthy_z_range: tuple[float, float]
    _healthy_angle_range: tuple[float, float]
    _exclude_current_positions_from_observation: bool

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._views = self.data.qpos, self.data.qvel, self.data.ctrl
        self._first = int(self._exclude_current_positions_from_observation)
        self._seconds = self.dt
        self._rise = float(self.init_qpos[1])

    def step(self, action: np.ndarray) -> Stepped:
        if action.shape != (self.model.nu,) or self.render_mode == "human":
            return super().step(action)
        qpos, qvel, ctrl = self._views
        before = qpos[0]
        ctrl[:] = action
        mujoco.mj_step(self.model, self.data, nstep=self.frame_skip)
        after = qpos[0]
        speed = (after - before) / self._seconds
        cost = self._ctrl_cost_weight * np.add.reduce(action * action)
        forward = self._forward_reward_weight * speed
        info = {"x_position": after}
        if self.clipped:
            healthy = self.in_health(qpos, qvel)
            survive = healthy * self._healthy_reward
            reward = forward + survive - cost
            info |= {"z_distance_from_origin": qpos[1] - self._rise, "x_velocity": speed}
            info |= {"reward_forward": forward, "reward_ctrl": -cost, "reward_survive": survive}
            return self._get_obs(), reward, not healthy and self._terminate_when_unhealthy, False, info
        info |= {"x_velocity": speed, "reward_forward": forward, "reward_ctrl": -cost}
        return self._get_obs(), forward - cost, False, False, info

    def _get_obs(self) -> Numbers:
        qpos, qvel, _ = self._views
        if self.clipped:
            qvel = np.minimum(np.maximum(qvel, -FASTEST), FASTEST)
        return np.concatenate((qpos[self._first :], qvel))

    def in_health(self, qpos: Numbers, qvel: Numbers) -> bool:
        """Whether the robot has not fallen."""
        (least, most), (left, right) = self._healthy_z_range, self._healthy_angle_range
        return bool(least < qpos[1] < most and left < qpos[2] < right)


class LeanHopper(Lean, HopperEnv):
    """Hopper-v5."""

    def in_health(self, qpos: Numbers, qvel: Numbers) -> bool:
        low, high = self._healthy_state_range
        return super().in_health(qpos, qvel) and all(low < entry < high for entry in qpos[2:].tolist() + qvel.tolist())


class LeanWalker2d(Lean, Walker2dEnv):
    """Walker2d-v5."""


class LeanHalfCheetah(Lean, HalfCheetahEnv):
    """HalfCheetah-v5, which cannot fall."""

    clipped = False


LEAN = {"Hopper-v5": LeanHopper, "Walker2d-v5": LeanWalker2d, "HalfCheetah-v5": LeanHalfCheetah}


def lean(robot: str, render_mode: str | None = None, **settings: object) -> Env:
    """One of the three by its Gymnasium id, with its time limit."""
    look_up("robot", robot, LEAN)
    spec = copy.deepcopy(gymnasium.spec(robot))
    spec.entry_point, spec.disable_env_checker = LEAN[robot], True
    make: Callable[..., Env] = gymnasium.make
    return make(spec, render_mode=render_mode, **settings)
