"""How many actions must a guard change? On the pole, with its dynamics known and the least that keeps it safe.

`python -m benchmarks.ideal_pole`: a random action is executed unless full braking could no longer stop the pole after
it; then the nearest one after which it could. It is the guard that lets everything pass that is safe.
"""

from __future__ import annotations

import math

import numpy as np

GRAVITY, TORQUE, DRAG, TICK = 2.0, 4.0, 0.5, 0.05  # those of `cvflows.envs.pole.Pole`
LIMITS, EPISODES, STEPS = (0.5, 0.7, 0.9), 60, 200
State = tuple[float, float]


def move(state: State, action: float) -> State:
    """One step of the pole."""
    angle, speed = state
    speed += TICK * (GRAVITY * math.sin(angle) + TORQUE * action - DRAG * abs(speed) * speed)
    return angle + TICK * speed, speed


def can_stop(state: State, limit: float) -> bool:
    """Whether full braking keeps the pole within both limits."""
    for side in (1.0, -1.0):
        angle, speed = state
        while True:
            if side * angle > limit:
                return False
            if side * speed < 0:
                break
            angle, speed = move((angle, speed), -side)
    return True


def changed(limit: float, seed: int = 0) -> float:
    """Share of random actions that must be changed."""
    rng, count = np.random.default_rng(seed), 0
    for _ in range(EPISODES):
        state = (float(rng.uniform(-0.5, 0.5)), 0.0)
        for _ in range(STEPS):
            action = float(rng.uniform(-1, 1))
            if not can_stop(move(state, action), limit):
                count += 1
                safe = next(end for end in (-1.0, 1.0) if can_stop(move(state, end), limit))
                for _ in range(20):
                    middle = (safe + action) / 2
                    safe, action = (middle, action) if can_stop(move(state, middle), limit) else (safe, middle)
                action = safe
            state = move(state, action)
    return count / (EPISODES * STEPS)


if __name__ == "__main__":
    for bound in LIMITS:
        print(f"|θ| ≤ {bound}: {100 * changed(bound):.1f} % of random actions changed")
