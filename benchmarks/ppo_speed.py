"""How fast does PPO train? Steps per second against Stable-Baselines3, and where the time goes.

Ours is PPO+CVFlow with its map, guard and normalisation; the other is plain PPO on the bare environment, with the same
networks, environments, rollouts, minibatches and epochs. Contenders take turns of two rollouts, each in a process of
its own with one thread; a ratio is the median over the rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Bar, main, need
from benchmarks.turns import Advance, Rounds, ratio, serve, take_turns

if TYPE_CHECKING:
    from cvflows.runs.train import Trainer

MODULE = "benchmarks.ppo_speed"
PLACES = {"H+M": "Hopper-v5", "W+M": "Walker2d-v5", "HC+O": "HalfCheetah-v5"}
FASTER = 3.0
ENVIRONMENTS, ROLLOUT, EPOCHS, MINIBATCHES, HIDDEN = 32, 64, 10, 32, (64, 64)
TURN = 2 * ENVIRONMENTS * ROLLOUT
PARTS = ("environment", "policy and map", "guard", "update")


def trainer_of(name: str) -> Trainer:
    """PPO+CVFlow on a task, with a rollout behind it."""
    import cvflows as cv
    from cvflows.runs.config import make_config, method_of
    from cvflows.runs.train import Trainer

    task = cv.task(name)
    changes = {"rollout": ROLLOUT, "epochs": EPOCHS, "minibatches": MINIBATCHES, "hidden": HIDDEN}
    config = make_config(task, "PPO+CVFlow", overrides=changes, num_envs=ENVIRONMENTS, evaluate_every=10**9)
    trainer = Trainer(task, config, cv.make_map(method_of(config).map, task.constraint, task.contexts))
    trainer.run(TURN)
    return trainer


def ours(name: str) -> Advance:
    """PPO+CVFlow."""
    trainer = trainer_of(name)
    return lambda steps: trainer.run(trainer.step + steps)


def theirs(env_id: str) -> Advance:
    """Stable-Baselines3's PPO, without any constraint."""
    import gymnasium
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    agent: Any = PPO(
        "MlpPolicy",
        DummyVecEnv([lambda: gymnasium.make(env_id)] * ENVIRONMENTS),
        n_steps=ROLLOUT,
        batch_size=ENVIRONMENTS * ROLLOUT // MINIBATCHES,
        n_epochs=EPOCHS,
        policy_kwargs={"net_arch": list(HIDDEN)},  # with tanh, its default
        device="cpu",
        seed=0,
    )
    agent.learn(TURN)
    return lambda steps: agent.learn(steps, reset_num_timesteps=False)


def shares(name: str, steps: int) -> dict[str, float]:
    """Shares of the time that the parts of a step take; the rest is counting and bookkeeping."""
    import jax

    trainer, spent = trainer_of(name), dict.fromkeys(PARTS, 0.0)

    def timed(part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*arguments: Any) -> Any:
            began = time.perf_counter()
            found = call(*arguments)
            spent[part] += time.perf_counter() - began
            return found

        return measured

    changed: Any = trainer
    for env in changed.envs:
        env.step, env.reset = timed("environment", env.step), _resetting(timed, env.reset)
    changed.guard = timed("guard", trainer.guard)
    changed.learner.explore = timed("policy and map", trainer.learner.explore)
    learn = trainer.learner.learn
    changed.learner.learn = timed("update", lambda: jax.block_until_ready(learn()))  # it is waited for elsewhere
    began = time.perf_counter()
    trainer.run(trainer.step + steps)
    whole = time.perf_counter() - began
    return {part: seconds / whole for part, seconds in spent.items()}


def _resetting(timed: Callable[..., Callable[..., Any]], reset: Callable[..., Any]) -> Callable[..., Any]:
    measured = timed("environment", lambda seed: reset(seed=seed))
    return lambda *, seed: measured(seed)


def run(quick: bool) -> dict[str, Any]:
    """Training speed of PPO+CVFlow beside PPO without constraints."""
    need("stable_baselines3", "bench")
    rounds = 2 if quick else 9
    found: Rounds = {}
    bars, parts = [], {}
    for name, env_id in PLACES.items():
        group: dict[str, list[Any]] = {f"{name} cvflows": ["ours", name], f"{name} sb3": ["theirs", env_id]}
        found |= take_turns(MODULE, group, TURN, rounds)
        bars.append(Bar(f"{name} over sb3", ratio(found, f"{name} cvflows", f"{name} sb3"), FASTER))
        parts[name] = shares(name, TURN if quick else 4 * TURN)
    speed = {name: statistics.median(values) for name, values in found.items()}
    return {"steps_per_second": speed, "rounds": found, "shares": parts, "bars": bars}


def table(report: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = ["| task | steps/s | SB3 | " + " | ".join(PARTS) + " |", "|---" * (3 + len(PARTS)) + "|"]
    for name, parts in report["shares"].items():
        speeds = " | ".join(f"{report['steps_per_second'][f'{name} {who}']:,.0f}" for who in ("cvflows", "sb3"))
        lines.append(f"| {name} | {speeds} | {' | '.join(f'{parts[part]:.0%}' for part in PARTS)} |")
    return "\n".join(lines)


if __name__ == "__main__" and not serve({"ours": ours, "theirs": theirs}):
    main("ppo_speed", run, table)
