# %% [markdown]
# # Your own limit on a Gymnasium robot
#
# HalfCheetah's six motors hang on one battery and two drivers. The battery gives mechanical power and heat,
# Σ max(wᵢaᵢ, 0) + 4 Σ aᵢ² ≤ 10; each leg's driver allows |a₁| + |a₂| + |a₃| ≤ 2. (The numbers are made up.)
# A constraint is any JAX function g(x, a), allowed where g ≤ 0. The rest follows from it: projection, maps, agents.
#
# `STEPS=100000 python examples/own_constraint.py`: a few minutes on one core.

# %%
import os
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import cvflows as cv

STEPS = int(os.environ.get("STEPS", 100_000))
PICTURE = Path(os.environ.get("PICTURES", ".")) / "own_constraint.png"


# %%
def limits(speed, a):
    """Three rows, each divided by its bound: battery, driver of the back leg, driver of the front leg."""
    battery = (jnp.sum(jnp.maximum(speed * a, 0)) + 4 * jnp.sum(a**2)) / 10
    legs = jnp.sum(jnp.abs(a.reshape(2, 3)), axis=1) / 2
    return jnp.concatenate([battery[None], legs]) - 1


allowed = cv.Constraint(limits, action_dim=6, context_dim=6, convex=True)  # convex in a: checked as it is used
task = cv.Task.from_env("HalfCheetah-v5", allowed, context=range(11, 17), name="cheetah")  # joint speeds

# %% [markdown]
# The guard alone, in front of any agent: here random actions, most of which are forbidden.

# %%
env = task.make_env(guard=True)
env.reset(seed=0)
env.action_space.seed(0)
asked, executed = [], []
for _ in range(300):
    *_, info = env.step(env.action_space.sample())
    asked.append(info["cv"])
    executed.append(info["executed_cv"])
print(f"random actions: {np.mean(np.array(asked) > 0):.0%} forbidden, worst violation {max(asked):.2f}")
print(f"what the robot got: worst violation {max(executed):.1e} (tolerance {cv.TOLERANCE:.0e})")

# %% [markdown]
# An agent that learns within the limit.

# %%
agent = cv.Agent("PPO+CVFlow", task, seed=0)
agent.learn(STEPS)
final = agent.evaluate(5)
print(f"return {final['return']:.0f} after {STEPS:,} steps")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
steps = [episode.step / 1000 for episode in agent.episodes]
left.plot(steps, [episode.reward for episode in agent.episodes], ".", ms=4)
left.set(xlabel="thousand steps", ylabel="return", title="PPO+CVFlow, training episodes")
right.plot(asked, ".", ms=3, color="tab:orange", label="asked for, at random")
right.plot(executed, ".", ms=3, label="executed")
right.set(xlabel="step", ylabel="violation", title="the guard in front of random actions")
right.legend(frameon=False)
figure.savefig(PICTURE, dpi=120)
