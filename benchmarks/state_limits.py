"""The robots of `safety_layer`: every form of learned constraint on them, whatever the agent wants, and trained agents.

Random actions, and full action at one limit, drawn for every 50 steps. An episode is in violation when any of its steps
left the limits; it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from cvflows.tasks.base import Task

ROBOTS = (
    *("InvertedPendulum", "DoublePendulum", "Pendulum-Strong", "Pendulum-Weak", "Reacher-Wall", "Quadrotor"),
    *("Hopper-Velocity", "Walker2d-Velocity", "HalfCheetah-Velocity", "Swimmer-Velocity", "Ant-Velocity"),
)
FORMS = ("none", "drift", "stopping", "cbf", "backup")
POLICIES = ("random", "push")
TRAINED = ("Hopper-Velocity", "PPO+CVFlow", 300_000)
TURN = 50
Policy = Callable[[np.ndarray], np.ndarray]


def try_robot(name: str, form: str, seed: int, episodes: int, steps: int) -> dict[str, Any]:
    """One robot, one form, one seed: both policies, in episodes of at most `steps` steps."""
    from cvflows.errors import UnenforceableLimitError
    from cvflows.tasks.catalogue import task as find_task

    task = find_task(name)
    result: dict[str, Any] = {"task": name, "form": form, "seed": seed, "own": form == task.form}
    model = None
    if form == "none":
        learned_task = task
    else:
        family = None if form == "backup" else str(task.learning["family"]) if "family" in task.learning else None
        try:
            found = task.learn(form, seed=seed, self_test=0, allow_weak=True, family=family)
        except UnenforceableLimitError as refused:
            return result | {"refused": str(refused)}
        learned_task, model = found.task, found.learned.constraint.model
        result |= {"rows": len(found.learned.constraint.error), "alpha": found.learned.alpha}
    for policy in POLICIES:
        result[policy] = _play(task, learned_task, model, policy, seed, episodes, steps)
    return result


def _play(task: Task, guarded: Task, model: Any, policy: str, seed: int, episodes: int, steps: int) -> dict[str, float]:
    """Shares, in percent, of episodes and steps in violation and of actions that were changed."""
    import jax

    assert task.limits is not None
    rng = np.random.default_rng(1000 + seed)
    env = guarded.make_env(guard=model is not None)
    signal = jax.jit(model) if model is not None else None
    left = unsafe = changed = taken = started = 0
    for episode in range(episodes):
        observation, _ = env.reset(seed=100_000 * (1 + seed) + episode)
        if task.limits.passed(observation).any():
            continue
        started += 1
        bad, limit, side = 0, 0, np.ones(task.action_dim)
        for step in range(steps):
            if step % TURN == 0:
                limit, side = int(rng.integers(task.limits.count)), rng.choice([-1.0, 1.0], task.action_dim)
            if policy == "random":
                wanted = rng.uniform(-1, 1, task.action_dim)
            else:
                wanted = side if signal is None else np.sign(signal(np.asarray(observation, np.float32))[1][limit])
            observation, _, terminated, truncated, info = env.step(np.asarray(wanted, np.float32))
            bad += bool(task.limits.passed(observation).any())
            changed += bool(info.get("projected", False))
            taken += 1
            if terminated or truncated:
                break
        left, unsafe = left + (bad > 0), unsafe + bad
    env.close()
    shares = {"episodes": left / max(started, 1), "steps": unsafe / max(taken, 1), "changed": changed / max(taken, 1)}
    return {key: 100 * value for key, value in shares.items()} | {"taken": taken, "started": started}


def train(name: str, method: str, seed: int, steps: int, episodes: int) -> dict[str, Any]:
    """An agent trained with the guard on: return, and steps above the limit, in training and at the end."""
    import cvflows as cv
    from cvflows.envs.watching import Watch
    from cvflows.tasks.catalogue import task as find_task
    from cvflows.tasks.making import make

    task = find_task(name)
    limits = task.limits
    assert limits is not None
    costs: list[int] = []

    class Ledger(Watch):
        """Keeps the cost of every finished episode."""

        def step(self, action: np.ndarray) -> Any:
            result = super().step(action)
            if result[2] or result[3]:
                costs.append(int(result[4]["episode_cost"]))  # type: ignore[call-overload]
            return result

    learned = task.learn(seed=seed, self_test=0).task
    counted = replace(
        learned, maker=lambda render_mode=None, **settings: Ledger(make(task.maker, settings, render_mode), limits)
    )
    agent = cv.Agent(method, counted, seed=seed).learn(steps, progress=False)
    training = list(costs)
    env = counted.make_env(guard=True)
    returns, lengths = [], []
    costs.clear()
    for episode in range(episodes):
        observation, _ = env.reset(seed=10_000 * (1 + seed) + episode)
        total, length, done = 0.0, 0, False
        while not done:
            action, _ = agent.predict(observation)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, length, done = total + float(reward), length + 1, terminated or truncated
        returns.append(total)
        lengths.append(length)
    figures = {
        "return": float(np.mean(returns)),
        "cost": float(np.mean(costs)),
        "training_cost": sum(training) / max(len(training), 1),
        "unsafe_percent": 100 * sum(costs) / sum(lengths),
    }
    return {"task": name, "method": method, "seed": seed, "steps": steps} | figures
