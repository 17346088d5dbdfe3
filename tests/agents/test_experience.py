"""Rows of several steps: rewards of one episode are summed, whatever lies between its rows."""

import numpy as np
import pytest

from cvflows.agents.experience import Replay, Steps
from cvflows.agents.problem import Acted
from cvflows.agents.sac import SACSettings

ENVIRONMENTS, DISCOUNT = 2, 0.5


def filled(n_steps, capacity, lengths, rng):
    """A replay of two environments, whose episodes of random lengths end by truncation or not; all steps by row."""
    settings = SACSettings(n_steps=n_steps, discount=DISCOUNT, buffer=capacity, batch=64)
    replay = Replay(settings, ENVIRONMENTS, 2, 1)
    seen, left = rng.normal(size=(ENVIRONMENTS, 2)), rng.integers(1, lengths, ENVIRONMENTS)
    steps = []
    for _ in range(20):
        after, reward = rng.normal(size=(ENVIRONMENTS, 2)), rng.normal(size=ENVIRONMENTS)
        left = left - 1
        ended, terminal = left == 0, (left == 0) & (rng.random(ENVIRONMENTS) < 0.5)
        latent, zeros = rng.normal(size=(ENVIRONMENTS, 1)), np.zeros(ENVIRONMENTS)
        acted = Acted(latent, latent, *(zeros for _ in range(5)))
        replay.add(Steps(seen, acted, latent, zeros, reward, after, terminal.astype(np.float32), ended))
        steps += [(*seen[i], latent[i, 0], reward[i], *after[i], terminal[i], ended[i]) for i in range(ENVIRONMENTS)]
        left = np.where(ended, rng.integers(1, lengths, ENVIRONMENTS), left)
        seen = np.where(ended[:, None], rng.normal(size=(ENVIRONMENTS, 2)), after)
    return replay, np.array(steps, np.float32)


def summed(steps, index, n_steps):
    """The same by the definition, with the ends of episodes known."""
    total, weight, at = 0.0, 1.0, index
    for step in range(n_steps):
        at = index + step * ENVIRONMENTS
        total += DISCOUNT**step * steps[at][3]
        weight = DISCOUNT**step * (1 - steps[at][6])
        if steps[at][7] or at + ENVIRONMENTS >= len(steps):
            break
    return [*steps[index][:3], total, *steps[at][4:6], 1 - weight]


@pytest.mark.parametrize("n_steps", [1, 2, 5])
@pytest.mark.parametrize("capacity", [100, 17])
def test_rewards_of_several_steps_follow_the_definition(n_steps, capacity):
    rng = np.random.default_rng(n_steps + capacity)
    replay, steps = filled(n_steps, capacity, 8, rng)
    kept = {tuple(np.float32(row[:2])): index for index, row in enumerate(steps) if index >= len(steps) - capacity}
    rows = replay.sample(rng, 3).reshape(192, -1)
    for row in rows:
        expected = summed(steps, kept[tuple(row[:2])], n_steps)
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-6)
    assert len({tuple(row[:2]) for row in rows}) > 10
