# %% [markdown]
# # A speed limit, learned from data
#
# The limit is on a state: the shoulder of Gymnasium's Reacher shall turn at most at 5 rad/s. Which torques keep it
# there depends on dynamics that nobody wrote down. `task.learn` plays random episodes, fits how actions change the
# speed, turns that into a constraint on actions, and tries it with the guard on. What cannot be kept is refused.
#
# `EPISODES=200 python examples/speed_limit.py`: half a minute on one core.

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cvflows as cv

EPISODES = int(os.environ.get("EPISODES", 200))
PICTURE = Path(os.environ.get("PICTURES", ".")) / "speed_limit.png"
SHOULDER, LIMIT = 6, 5.0  # the observation's entry, rad/s

# %%
task = cv.Task.from_env("Reacher-v5", limits=cv.Ranges({SHOULDER: (-LIMIT, LIMIT)}), name="slow arm")
found = task.learn("stopping", episodes=EPISODES, seed=0)
signal = found.learned.signals[0]
print(f"full braking takes off {signal.strength:.2f} rad/s per step, something pushes by up to {signal.push:.2f}")
print(f"guarded test episodes stayed within the limit: {found.self_test.passed}")

# %% [markdown]
# The hardest driver there is, with the guard and without: full torque, changing its direction at random.


# %%
def drive(env, episodes=20):
    """Speeds (episodes · steps,) of the shoulder."""
    rng, speeds = np.random.default_rng(0), []
    for episode in range(episodes):
        observation, _ = env.reset(seed=1000 + episode)
        push, ended = np.ones(2), False
        while not ended:
            push = np.where(rng.random(2) < 0.1, -push, push)
            observation, _, terminated, truncated, _ = env.step(push.astype(np.float32))
            speeds.append(observation[SHOULDER])
            ended = terminated or truncated
    return np.array(speeds)


free, guarded = drive(task.make_env()), drive(found.task.make_env(guard=True))
for name, speeds in (("without", free), ("with", guarded)):
    above = np.abs(speeds) - LIMIT
    print(f"{name} the guard: {np.mean(above > 0):.1%} of the steps too fast, by at most {above.max():.4f} rad/s")

# %%
figure, axes = plt.subplots(figsize=(10, 3.4), layout="constrained")
axes.plot(free[:200], lw=1, color="0.6", label="without the guard")
axes.plot(guarded[:200], lw=1.4, label="with the learned constraint")
for end in (-LIMIT, LIMIT):
    axes.axhline(end, color="tab:red", lw=1)
axes.set(xlabel="step (four episodes)", ylabel="speed of the shoulder, rad/s", title="a speed limit learned from data")
axes.legend(frameon=False, loc="upper right")
figure.savefig(PICTURE, dpi=120)
