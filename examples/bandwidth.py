# %% [markdown]
# # Bandwidth that sums to one, with capacities of links
#
# Nine flows share a network: shares s ≥ 0, Σ s = 1, and the flows on a link may take half of the total together. Which
# flow uses which of eight links is as in the NSFnet task of ARAM's benchmark (rates 50(a+1), links of 50); that shares
# sum to one is ours. **Simplified:** no simulator: no packets, queues, latency or losses. Demands are made up, a flow
# is served min(share, demand), and the reward is the sum of it. The last demands are seen, not the coming ones.
#
# `STEPS=60000 python examples/bandwidth.py`: minutes on one core.

# %%
import os
from pathlib import Path

import gymnasium
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import cvflows as cv

STEPS = int(os.environ.get("STEPS", 60_000))
PICTURE = Path(os.environ.get("PICTURES", ".")) / "bandwidth.png"
LINKS = ((1, 2, 4, 5), (3, 6), (1, 2, 4), (3, 5, 6), (2, 4, 7, 9), (1, 8), (2, 4, 9), (2, 3, 9))
USES = np.array([[flow in link for flow in range(1, 10)] for link in LINKS], np.float32)  # (8, 9)

# %% [markdown]
# Actions are in [-1,1], s = (a + 1) / 2. So Σ s = 1 reads Σ a = -7, and a link of n flows Σ a ≤ 1 - n.

# %%
capacities = cv.HalfSpaces(9, 8, lambda x: (jnp.asarray(USES.sum(axis=1) - 1), jnp.asarray(USES)), context_dim=0)
allowed = cv.Sum(9, total=-7.0, low=-1.0, high=1.0) & capacities


class Flows(gymnasium.Env):
    """Demands (9,) rise and fall in a day of 48 steps; each flow has its own rush hour."""

    action_space = gymnasium.spaces.Box(-1, 1, (9,), np.float32)
    observation_space = gymnasium.spaces.Box(0, 2, (9,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.look(), {}

    def look(self):
        wave = 1 + np.sin(2 * np.pi * (self.time / 48 + np.arange(9) / 9))
        self.demand = (0.12 * wave * self.np_random.uniform(0.7, 1.3, 9)).astype(np.float32)
        return self.demand.copy()

    def step(self, action):
        self.time += 1
        observation = self.look()
        return observation, float(np.minimum((action + 1) / 2, observation).sum()), False, self.time >= 48, {}


# %%
agent = cv.Agent("PPO+Projection", cv.Task.from_env(Flows, allowed, name="flows"), seed=0)
agent.learn(STEPS)
choices = {"equal shares": lambda seen: np.full(9, 2 / 9 - 1), "last demands, projected": lambda seen: 2 * seen - 1}
choices["learned"] = lambda seen: agent.predict(seen)[0]
for name, choose in choices.items():
    env, total, executed = cv.FeasibleActions(Flows(), allowed), 0.0, []
    observation, _ = env.reset(seed=7)
    for _ in range(48):
        observation, reward, _, _, info = env.step(choose(observation))
        total, executed = total + reward, [*executed, (info["executed"] + 1) / 2]
    shares = np.array(executed)  # (48, 9)
    print(f"{name}: {total / 48:.1%} of the bandwidth is used; Σ s within {np.abs(shares.sum(1) - 1).max():.0e} of 1")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
left.stackplot(range(48), shares.T)
left.set(xlabel="half hour", ylabel="share", title="shares of nine flows, learned", ylim=(0, 1))
right.boxplot(shares @ USES.T, whis=(0, 100))
right.axhline(0.5, color="tab:red", lw=1)
right.set(xlabel="link", ylabel="load", title="loads of the links, with their capacity", ylim=(0, 0.55))
figure.savefig(PICTURE, dpi=120)
