# %% [markdown]
# # An agent of Stable-Baselines3 that cannot leave the set
#
# The torques of a two-link arm must stay in a disc: ‖a‖² ≤ 0.05. SB3's PPO knows nothing of it. `LatentActions` gives
# it a box of latents to act in, and a map turns each latent into an allowed action; the guard checks it again.
# Without it, PPO would act in the box and its actions would be projected: shown beside it, under the same guard.
#
# `STEPS=30000 python examples/sb3_latent.py`: needs `pip install 'cvflows[sb3]'`; minutes.

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor

import cvflows as cv

STEPS = int(os.environ.get("STEPS", 30_000))
PICTURE = Path(os.environ.get("PICTURES", ".")) / "sb3_latent.png"

# %%
task = cv.task("R+L2")
disc = cv.make_map("calm", task.constraint, task.contexts)  # for a disc it is exact: nothing to fit
doors = {
    "through a map": cv.LatentActions(task.make_env(), disc),
    "projected": cv.FeasibleActions(task.make_env(), task.constraint),
}

# %% [markdown]
# The same algorithm and settings behind both doors. `info["executed"]` is what the arm got.

# %%
curves, executed, share = {}, {}, {}
for name, env in doors.items():
    monitor = Monitor(env, info_keywords=("cost", "executed"))
    seen, projected = executed.setdefault(name, []), []

    def record(now, _, seen=seen, projected=projected):
        seen.extend(info["executed"] for info in now["infos"])
        projected.extend(info["projected"] for info in now["infos"])
        return True

    agent = PPO("MlpPolicy", monitor, seed=0, n_steps=512, device="cpu", use_sde=False)
    agent.learn(STEPS, callback=record)
    curves[name] = np.array([monitor.get_episode_lengths(), monitor.get_episode_rewards()])
    share[name] = float(np.mean(projected))
    assert np.asarray(task.constraint.contains(None, np.array(seen))).all()
    print(f"{name}: last ten episodes {curves[name][1][-10:].mean():.1f}, {share[name]:.1%} of the actions projected")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, (lengths, rewards) in curves.items():
    smooth = np.convolve(rewards, np.ones(10) / 10, "valid") if len(rewards) > 10 else rewards
    left.plot(np.cumsum(lengths)[-len(smooth) :], smooth, label=f"{name} ({share[name]:.0%} projected)")
    right.plot(*np.array(executed[name][-2000:]).T, ".", ms=2, alpha=0.6, label=name)
left.set(xlabel="step", ylabel="return", title="SB3's PPO, mean of ten episodes")
left.legend(frameon=False)
right.add_patch(plt.Circle((0, 0), 0.05**0.5, fill=False, color="tab:red"))
right.set(aspect="equal", title="the last 2,000 executed actions", xlabel="$a_1$", ylabel="$a_2$")
figure.savefig(PICTURE, dpi=120)
