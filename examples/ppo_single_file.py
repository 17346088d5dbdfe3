# %% [markdown]
# # A single-file PPO, in the manner of CleanRL
# All of the agent is below; it knows of no constraint. `LatentVectorActions` stands between it and sixteen carts with a
# pole each, whose motors may draw |speed · a| ≤ 0.5. Simplified beside CleanRL: one network, no annealing.
# `STEPS=100000 python examples/ppo_single_file.py`: a minute or two on one core.

# %%
import os
from itertools import pairwise
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import cvflows as cv

STEPS, ENVS, ROLLOUT = int(os.environ.get("STEPS", 100_000)), 16, 128
PICTURE = Path(os.environ.get("PICTURES", ".")) / "ppo_single_file.png"
envs = gymnasium.wrappers.vector.RescaleAction(gymnasium.make_vec("InvertedPendulum-v5", num_envs=ENVS), -1, 1)
power = cv.make_map("ray", cv.Orthoplex(dim=1, bound=0.5), cv.Normal(1, 0.0, 1.0))
envs = cv.LatentVectorActions(envs, power, context=[2])  # the speed of the cart
sizes = (envs.single_observation_space.shape[0], 64, 64, envs.single_action_space.shape[0] + 1)


# %%
@jax.jit
def forward(p, x):  # mean (…, d) of the latent, its log standard deviation (d,), the value (…)
    for W, b in p["layers"]:
        x = jnp.tanh(x) @ W + b
    return x[..., :-1], p["spread"], x[..., -1]


@jax.jit
def update(p, before, memory, x, z, advantage, target, weight):
    def loss(p):
        (mean, spread, value), (old_mean, old_spread, _) = forward(p, x), forward(before, x)
        new, old = (z - mean) / jnp.exp(spread), (z - old_mean) / jnp.exp(old_spread)  # of two Gaussian densities
        ratio = jnp.exp(jnp.sum((old**2 - new**2) / 2 + old_spread - spread, axis=-1))
        gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 0.8, 1.2) * advantage)
        return jnp.average(0.5 * (value - target) ** 2 - gain, weights=weight)

    changes, memory = optimiser.update(jax.grad(loss)(p), memory, p)
    return optax.apply_updates(p, changes), memory


rng, optimiser = np.random.default_rng(0), optax.adam(1e-3)
layers = [(rng.normal(size=size) / size[0] ** 0.5, np.zeros(size[1])) for size in pairwise(sizes)]
p = jax.tree.map(jnp.float32, {"layers": layers, "spread": np.full(sizes[-1] - 1, -0.5)})
(x, _), memory, running, returns, projected = envs.reset(seed=0), optimiser.init(p), np.zeros(ENVS), [], 0
for iteration in range(max(1, STEPS // (ENVS * ROLLOUT))):
    rows = []
    for _ in range(ROLLOUT):
        mean, spread, value = jax.device_get(forward(p, x))
        z = mean + np.exp(spread) * rng.normal(size=mean.shape).astype(np.float32)
        seen, (x, reward, terminated, truncated, infos) = x, envs.step(z)
        ended, running = terminated | truncated, running + reward
        rows.append((seen, z, value, 0.05 * reward, terminated, ended, infos["_executed"]))
        returns += [((iteration + 1) * ENVS * ROLLOUT, total) for total in running[ended]]
        running, projected = running * ~ended, projected + infos["projected"].sum()
    seen, z, value, reward, terminated, ended, acted = map(np.array, zip(*rows, strict=True))
    following = np.append(value[1:], np.asarray(forward(p, x)[2])[None], 0)  # at an end, of the last observation
    advantage, later = reward + 0.99 * ~terminated * following - value, 0.0
    for step in reversed(range(ROLLOUT)):
        later = advantage[step] = advantage[step] + 0.99 * 0.95 * ~ended[step] * later
    scaled = (advantage - advantage[acted].mean()) / (advantage[acted].std() + 1e-6)
    old, flat = p, [np.float32(v).reshape(-1, *v.shape[2:]) for v in (seen, z, scaled, advantage + value, acted)]
    for chosen in rng.integers(0, ENVS * ROLLOUT, (40, 256)):  # rows that were reset, not stepped, have weight 0
        p, memory = update(p, old, memory, *(part[chosen] for part in flat))
print(f"last 50 returns: {np.mean([total for _, total in returns[-50:]]):.1f}; {projected} actions projected")

# %%
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(*np.array(returns or [(0, np.nan)]).T, ".", ms=3, alpha=0.4)
axes.set(xlabel="step", ylabel="return (at most 1,000)", title="a PPO of one file behind LatentVectorActions")
figure.savefig(PICTURE, dpi=120)
