"""Reacher: bring the tip of a two-link arm to a target, rewarded for progress.

The reward is a potential, 100·(distance before - distance after), less small costs of power, torque and the elbow's
stop: an episode returns what was gained on the way. After the roboschool reacher that the benchmark was made with, on
MuJoCo: 150 steps of 0.0165 s, two Runge-Kutta steps each.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TypedDict, Unpack

import mujoco
import numpy as np
from gymnasium import spaces
from gymnasium.envs.mujoco import MujocoEnv

from cvflows.envs.worlds import Info, clipped

ELBOW_LIMIT = 3.0
SPEED_UNIT = 0.1
STEPS = 150


class Camera(TypedDict, total=False):
    """How pictures are taken: arguments of `MujocoEnv`."""

    width: int
    height: int
    camera_id: int | None
    camera_name: str | None
    default_camera_config: dict[str, float | int] | None
    max_geom: int
    visual_options: dict[int, bool]


class Reacher(MujocoEnv):
    """Observation (9): target x, y; tip - target x, y; cos θ₁; sin θ₁; 0.1·θ̇₁; θ₂/3; 0.1·θ̇₂.

    **Arguments:**

    - `reach`: target coordinates are uniform within ±reach, in metres.
    - `steps`: length of an episode, which is then truncated; none terminates.
    - `progress`, `power`, `torque`, `stop`: weights of the terms of the reward, which `info` lists.
    """

    metadata = {  # noqa: RUF012 - Gymnasium's convention
        "render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"],
        "render_fps": 61,
    }

    def __init__(
        self,
        *,
        reach: float = 0.27,
        steps: int = STEPS,
        progress: float = 100.0,
        power: float = 0.1,
        torque: float = 0.01,
        stop: float = 0.1,
        render_mode: str | None = None,
        **camera: Unpack[Camera],
    ) -> None:
        self.reach, self.steps = reach, steps
        self.progress, self.power, self.torque, self.stop = progress, power, torque, stop
        shown: Camera = {"width": 320, "height": 320, "camera_name": "above", **camera}
        super().__init__(
            str(Path(__file__).parent / "assets" / "reacher.xml"),
            frame_skip=2,
            observation_space=spaces.Box(-np.inf, np.inf, (9,), np.float32),
            render_mode=render_mode,
            **shown,
        )
        self._tip = self.model.body("tip").id
        self._steps = 0

    def reset_model(self) -> np.ndarray:
        self._steps = 0
        self.data.mocap_pos[0, :2] = self.np_random.uniform(-self.reach, self.reach, 2)
        self.set_state(self.np_random.uniform(-3.14, 3.14, 2), np.zeros(2))
        return self._observe()

    def step(  # type: ignore[override] # MujocoEnv says float64, which a reward need not be
        self, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool, Info]:
        before, command = self._distance(), clipped(action, 2)
        self.data.ctrl[:] = command
        mujoco.mj_step(self.model, self.data, nstep=self.frame_skip)
        mujoco.mj_kinematics(self.model, self.data)  # positions of the bodies after the step, not before it
        self._steps += 1
        first, second = (SPEED_UNIT * self.data.qvel).tolist()
        stopped = abs(abs(float(self.data.qpos[1]) / ELBOW_LIMIT) - 1) < 0.01
        parts: dict[str, float] = {
            "progress": self.progress * (before - self._distance()),
            "power": -self.power * (abs(command[0] * first) + abs(command[1] * second)),
            "torque": -self.torque * (abs(command[0]) + abs(command[1])),
            "stop": -self.stop if stopped else 0.0,
        }
        if self.render_mode == "human":
            self.render()
        late = self._steps >= self.steps
        return self._observe(), sum(parts.values()), False, late, {**parts}

    def _distance(self) -> float:
        return math.dist(self.data.xpos[self._tip].tolist(), self.data.mocap_pos[0].tolist())

    def _observe(self) -> np.ndarray:
        (x, y, _), (tip_x, tip_y, _) = self.data.mocap_pos[0].tolist(), self.data.xpos[self._tip].tolist()
        (shoulder, elbow), (first, second) = self.data.qpos.tolist(), (SPEED_UNIT * self.data.qvel).tolist()
        place = [x, y, tip_x - x, tip_y - y]
        return np.array(
            [*place, math.cos(shoulder), math.sin(shoulder), first, elbow / ELBOW_LIMIT, second], np.float32
        )
