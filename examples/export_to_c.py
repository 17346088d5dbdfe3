# %% [markdown]
# # From training to C
#
# A policy for a two-link arm whose torques must stay in a disc, exported as C99: no allocation, nothing but libm, and
# the constraint's check compiled in. The same controller runs in Python without JAX. `robot_in_c/` is a control loop
# around it, with sensors that fail on purpose.
#
# `STEPS=20000 python examples/export_to_c.py`: a minute; needs cc and make for the last part.

# %%
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cvflows as cv

STEPS = int(os.environ.get("STEPS", 20_000))
PICTURE = Path(os.environ.get("PICTURES", ".")) / "export_to_c.png"
WORK = Path(os.environ.get("WORK") or tempfile.mkdtemp())

# %%
agent = cv.Agent("PPO+CVFlow", "R+L2", seed=0)
agent.learn(STEPS)
folder = agent.export(WORK / "controller", fallback="anchor")
print(sorted(path.name for path in folder.iterdir()))

# %% [markdown]
# In Python, as on the robot: every tenth observation is broken, and gets the fallback instead.

# %%
controller = cv.Controller.load(folder)
env = agent.task.make_env(guard=True)
observation, _ = env.reset(seed=0)
actions, statuses = [], []
for step in range(600):
    seen = np.array(observation, np.float32)
    if step % 10 == 9:
        seen[step // 10 % len(seen)] = np.nan
    action, status, _ = controller.act(seen)
    observation, _, terminated, truncated, info = env.step(action)
    assert not info["projected"]
    actions.append(action)
    statuses.append(status)
    if terminated or truncated:
        observation, _ = env.reset()
counts = {status.name: statuses.count(status) for status in sorted(set(statuses))}
print(counts)

# %% [markdown]
# In C: compiled with every warning an error, 1,000 cycles.

# %%
if shutil.which("cc") and shutil.which("make"):
    here = Path(globals().get("__file__", "examples/export_to_c.py")).resolve().parent
    loop = shutil.copytree(here / "robot_in_c", WORK / "robot", dirs_exist_ok=True)
    subprocess.run(["make", "-s", f"CONTROLLER={folder}", "CC=cc"], cwd=loop, check=True)
    print(subprocess.run([loop / "robot", "1000"], check=True, capture_output=True, text=True).stdout)

# %%
figure, axes = plt.subplots(figsize=(5, 4.6), layout="constrained")
for status in sorted(set(statuses)):
    some = np.array([action for action, one in zip(actions, statuses, strict=True) if one == status])
    axes.plot(*some.T, "." if status == cv.Status.OK else "x", label=f"{status.name} ({len(some)})")
axes.add_patch(plt.Circle((0, 0), 0.05**0.5, fill=False, color="tab:red"))
axes.set(aspect="equal", xlabel="$a_1$", ylabel="$a_2$", title="actions that left the controller")
figure.legend(loc="outside lower center", ncols=2, frameon=False)
figure.savefig(PICTURE, dpi=120)
