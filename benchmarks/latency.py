"""How long does one decision take? `agent.predict`, numpy to numpy: policy, ray map, check and guard included.

Beside it Stable-Baselines3's `predict` on the bare policy, in turns of some calls each, and a batch of 4,096
observations. The first call of a turn is counted apart: it finds the caches full of what the other left there.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.harness import Bar, main, need

TASKS = ("R+L2", "HC+O", "Ball3D")
BATCH = 4096
TURN = 20
P50 = 100e-6
SHARE = 0.35
"""Of SB3's time in the same run."""
KEYS = ("p50", "p99", "first_p50", "sb3_p50", "sb3_first_p50", "batch_4096")


def measure(name: str, count: int) -> dict[str, Any]:
    """Percentiles of one task."""
    import stable_baselines3

    import cvflows as cv

    task = cv.task(name)
    if task.limits is not None:
        task = task.learn(episodes=200, self_test=0).task
    hidden = (64, 64) if task.family == "world" else (256, 256)
    map_ = cv.make_map("calm", task.constraint, task.contexts)
    agent = cv.Agent("SAC+CVFlow", task, map_=map_, hidden=hidden)
    env = task.make_env()
    peer = stable_baselines3.SAC("MlpPolicy", env, policy_kwargs={"net_arch": list(hidden)}, buffer_size=10)
    observation, _ = env.reset(seed=0)
    many = np.repeat(np.asarray(observation, np.float32)[None], BATCH, axis=0)
    calls: dict[str, Any] = {"ours": (agent, observation), "sb3": (peer, observation), "batch": (agent, many)}
    times: dict[str, list[list[float]]] = {key: [] for key in calls}
    for _ in range(1 + count // TURN):
        for key, (who, what) in calls.items():
            times[key].append([timed(who, what) for _ in range(1 if key == "batch" else TURN)])
    ours, sb3, batch = (np.asarray(times[key][1:]) for key in calls)
    return {
        "task": name,
        "p50": float(np.percentile(ours[:, 1:], 50)),
        "p99": float(np.percentile(ours[:, 1:], 99)),
        "first_p50": float(np.median(ours[:, 0])),
        "sb3_p50": float(np.percentile(sb3[:, 1:], 50)),
        "sb3_first_p50": float(np.median(sb3[:, 0])),
        "batch_4096": float(np.median(batch)),
    }


def timed(who: Any, what: np.ndarray) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    who.predict(what, deterministic=True)
    return time.perf_counter() - began


def run(quick: bool) -> dict[str, Any]:
    """Seconds per decision."""
    need("stable_baselines3", "bench")
    tasks = [measure(name, 200 if quick else 3000) for name in TASKS]
    bars = []
    for row in tasks:
        bars.append(Bar(f"{row['task']} p50 in µs", 1e6 * row["p50"], 1e6 * P50, at_least=False))
        bars.append(Bar(f"{row['task']} over SB3's", row["p50"] / row["sb3_p50"], SHARE, at_least=False))
    return {"tasks": tasks, "bars": bars}


def table(report: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = ["| task | p50 | p99 | first of a turn | SB3 p50 | SB3 first | batch of 4,096 |", "|---" * 7 + "|"]
    for row in report["tasks"]:
        cells = [f"{1e6 * row[key]:,.0f} µs" for key in KEYS]
        lines.append(f"| {row['task']} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main("latency", run, table)
