# %% [markdown]
# # Bandwidth that sums to one, with capacities of links
#
# Nine flows share a network: shares s ≥ 0 with Σ s = 1, and the flows on a link may take at most half of the total
# together. Which flow uses which of the eight links is as in the NSFnet task of ARAM's benchmark, where it is
# rates of 50(a+1) on links of capacity 50; that they sum to one is ours. **Simplified:** there is no network
# simulator. No packets, queues, latency or losses: a flow is served min(share, demand), demands are random, and the
# reward is the mean of log(served + 0.01), which prefers fair shares.
#
# `STEPS=40000 PICTURES=pictures python examples/bandwidth.py`: a few minutes on one core.

# %%
import os
from pathlib import Path

import gymnasium
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import cvflows as cv

STEPS = int(os.environ.get("STEPS", 40_000))
PICTURE = Path(os.environ.get("PICTURES", "pictures")) / "bandwidth.png"
LINKS = ((1, 2, 4, 5), (3, 6), (1, 2, 4), (3, 5, 6), (2, 4, 7, 9), (1, 8), (2, 4, 9), (2, 3, 9))
USES = np.array([[flow in link for flow in range(1, 10)] for link in LINKS], np.float32)  # (8, 9)

# %% [markdown]
# Actions are in [-1,1], s = (a + 1) / 2. So Σ s = 1 reads Σ a = -7, and a link of n flows Σ a ≤ 1 - n.

# %%
capacities = cv.HalfSpaces(9, 8, lambda x: (jnp.asarray(USES.sum(axis=1) - 1), jnp.asarray(USES)), context_dim=0)
allowed = cv.Sum(9, total=-7.0, low=-1.0, high=1.0) & capacities


class Flows(gymnasium.Env):
    """Demands (9,) rise and fall in a day of 48 steps; each flow has its own rush hour."""

    def __init__(self, render_mode=None):
        self.action_space = gymnasium.spaces.Box(-1, 1, (9,), np.float32)
        self.observation_space = gymnasium.spaces.Box(0, 2, (9,), np.float32)

    def _look(self):
        wave = 1 + np.sin(2 * np.pi * (self.time / 48 + np.arange(9) / 9))
        self.demand = 0.12 * wave * self.np_random.uniform(0.7, 1.3, 9)
        return self.demand.astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._look(), {}

    def step(self, action):
        reward = float(np.log(np.minimum((action + 1) / 2, self.demand) + 0.01).mean())
        self.time += 1
        return self._look(), reward, False, self.time >= 48, {}


def day(choose):
    """Return and executed shares (48, 9) of a guarded day."""
    env = cv.FeasibleActions(Flows(), allowed)
    observation, _ = env.reset(seed=7)
    total, shares = 0.0, []
    for _ in range(48):
        observation, reward, _, _, info = env.step(choose(observation))
        total += reward
        shares.append((info["executed"] + 1) / 2)
    return total, np.array(shares)
