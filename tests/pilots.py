"""Controllers with known returns, for calibrating environments."""

import math

import numpy as np

LINKS = (0.1, 0.11)


def reach(observation, gain=1.0, damping=0.2, radius=0.05**0.5):
    """Inverse kinematics and a PD law for the Reacher, cut off to the disc of R+L2."""
    x, y, _, _, cosine, sine, first, elbow, second = observation.tolist()
    near = (x * x + y * y - LINKS[0] ** 2 - LINKS[1] ** 2) / (2 * LINKS[0] * LINKS[1])
    bend = min(math.acos(min(max(near, -1.0), 1.0)), 2.95)
    turns = []
    for side in (bend, -bend):
        aim = math.atan2(y, x) - math.atan2(LINKS[1] * math.sin(side), LINKS[0] + LINKS[1] * math.cos(side))
        turn = (aim - math.atan2(sine, cosine) + math.pi) % (2 * math.pi) - math.pi
        turns.append((abs(turn) + abs(side - 3 * elbow) / 2, turn, side - 3 * elbow))
    _, shoulder, bend = min(turns)
    command = np.array([gain * shoulder - damping * 10 * first, 0.4 * (gain * bend - damping * 10 * second)])
    return (command * min(1.0, radius / max(np.linalg.norm(command), 1e-9))).astype(np.float32)
