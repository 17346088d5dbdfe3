# %% [markdown]
# # A hopping robot under a power budget
#
# The joints of Gymnasium's Hopper may draw at most P = 10 together: Σ max(wᵢaᵢ, 0) ≤ 10, where w are the joints'
# speeds and a the motors' commands. What is allowed changes with every step. PPO+CVFlow acts through a map whose
# every output is allowed; a guard checks each action again, in double precision, before the robot gets it.
#
# `STEPS=200000 python examples/hopper_power.py`: a few minutes on one core.

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cvflows as cv

STEPS = int(os.environ.get("STEPS", 200_000))
PICTURE = Path(os.environ.get("PICTURES", ".")) / "hopper_power.png"

# %% [markdown]
# The task is in the catalogue (`cvflows tasks`). With an environment of your own: `own_constraint.py`.

# %%
agent = cv.Agent("PPO+CVFlow", "H+M", seed=0)
agent.learn(STEPS)
asked = sum(episode.violations for episode in agent.episodes)
print(f"{STEPS:,} steps of training, {asked} forbidden actions asked for")

# %% [markdown]
# One episode with the trained policy, and the power that every action draws.

# %%
env = agent.task.make_env(guard=True)
observation, _ = env.reset(seed=1)
power, reward, ended = [], 0.0, False
while not ended:
    speeds = np.asarray(agent.task.context(observation))
    action, _ = agent.predict(observation)
    observation, gained, terminated, truncated, info = env.step(action)
    assert not info["projected"]  # what `predict` returns is allowed
    power.append(float(np.maximum(speeds * info["executed"], 0).sum()))
    reward, ended = reward + float(gained), terminated or truncated
print(f"return {reward:.0f} in {len(power)} steps; highest power {max(power):.6f} of 10")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
whole = [episode for episode in agent.episodes if not episode.cut]
left.plot([episode.step / 1000 for episode in whole], [episode.reward for episode in whole], ".", ms=2, alpha=0.5)
left.set(xlabel="thousand steps", ylabel="return", title="training episodes")
right.plot(power, lw=0.8)
right.axhline(10, color="tab:red", lw=1, label="the budget")
right.set(xlabel="step of one episode", ylabel="power", title="never above the budget", ylim=(0, 11))
right.legend(loc="upper right", frameon=False, bbox_to_anchor=(1, 0.9))
figure.savefig(PICTURE, dpi=120)
