# %% [markdown]
# # An agent of Stable-Baselines3 that cannot leave the set
#
# A cart balances a pole, and its motor may draw |speed · a| ≤ 0.5: the faster it is, the less it may push. SB3's PPO
# knows nothing of it. `LatentActions` gives it a box of latents to act in, and a map turns each into an allowed action;
# the guard checks it again. Beside it, the same PPO in the action box, forbidden actions projected by the same guard.
#
# `STEPS=40000 python examples/sb3_latent.py`: needs `pip install 'cvflows[sb3]'`; minutes on one core.

# %%
import os
from pathlib import Path

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor

import cvflows as cv

STEPS = int(os.environ.get("STEPS", 40_000))
PICTURE = Path(os.environ.get("PICTURES", ".")) / "sb3_latent.png"
SPEED = 2  # the observation's entry


# %%
def cart():
    return gymnasium.wrappers.RescaleAction(gymnasium.make("InvertedPendulum-v5"), -1, 1)


power = cv.Orthoplex(dim=1, bound=0.5)
map_ = cv.make_map("ray", power, cv.Normal(1, 0.0, 1.0))  # nothing to fit: the identity well inside the set
doors = {
    "through a map": cv.LatentActions(cart(), map_, context=[SPEED]),
    "projected": cv.FeasibleActions(cart(), power, context=[SPEED]),
}

# %% [markdown]
# The same algorithm and settings behind both doors. `info["executed"]` is what the cart got.

# %%
curves, executed, share = {}, {}, {}
for name, env in doors.items():
    seen, projected = executed.setdefault(name, []), []

    def record(now, _, seen=seen, projected=projected):
        seen.append([float(now["obs_tensor"][0, SPEED]), *now["infos"][0]["executed"]])
        projected.append(now["infos"][0]["projected"])
        return True

    monitor = Monitor(env)
    PPO("MlpPolicy", monitor, seed=0, n_steps=512, device="cpu").learn(STEPS, callback=record)
    curves[name] = np.cumsum(monitor.get_episode_lengths()), np.array(monitor.get_episode_rewards())
    share[name] = float(np.mean(projected))
    print(f"{name}: last ten episodes {curves[name][1][-10:].mean():.0f}, {share[name]:.1%} of the actions projected")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, (steps, rewards) in curves.items():
    left.plot(steps / 1000, rewards, ".", ms=4, alpha=0.6, label=f"{name} ({share[name]:.1%} projected)")
    right.plot(*np.array(executed[name][:10_000]).T, ".", ms=2, alpha=0.5)
left.set(xlabel="thousand steps", ylabel="return (at most 1,000)", title="SB3's PPO, training episodes")
left.legend(frameon=False)
speed = np.linspace(0.4, 4, 200)
for side in (speed, -speed):
    right.plot(side, 0.5 / speed, color="tab:red", lw=1)
    right.plot(side, -0.5 / speed, color="tab:red", lw=1)
right.set(xlabel="speed", ylabel="a", ylim=(-1.05, 1.05), title="the first 10,000 executed actions, and the limit")
figure.savefig(PICTURE, dpi=120)
