"""How long does one decision take? `agent.predict`, numpy to numpy: policy, map, check and guard included.

Beside it Stable-Baselines3's `predict` on the bare policy, called in turns with ours, and a batch of 4,096
observations.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.harness import Bar, main, need

TASKS = ("R+L2", "HC+O", "Ball3D")
BATCH = 4096
P50 = 150e-6


def measure(name: str, count: int) -> dict[str, Any]:
    """Percentiles of one task."""
    import stable_baselines3

    import cvflows as cv
    from cvflows.maps.fit import FitConfig
    from cvflows.runs.fitting import fit_task

    task = cv.task(name)
    if task.limits is not None:
        task = task.learn(episodes=200).task
    hidden = (64, 64) if task.family == "world" else (256, 256)
    map_ = fit_task(task, "auto", FitConfig(steps=100)).fitted.map
    agent = cv.Agent("SAC+CVFlow", task, map_=map_, hidden=hidden)
    env = task.make_env()
    peer = stable_baselines3.SAC("MlpPolicy", env, policy_kwargs={"net_arch": list(hidden)}, buffer_size=10)
    observation, _ = env.reset(seed=0)
    many = np.repeat(np.asarray(observation, np.float32)[None], BATCH, axis=0)
    times: dict[str, list[float]] = {"ours": [], "sb3": [], "batch": []}
    calls: dict[str, Any] = {"ours": (agent, observation), "sb3": (peer, observation), "batch": (agent, many)}
    for index in range(count + 20):
        for key, (who, what) in calls.items():
            if key == "batch" and index % 50:
                continue
            began = time.perf_counter()
            who.predict(what, deterministic=True)
            if index >= 20:
                times[key].append(time.perf_counter() - began)
    return {
        "task": name,
        "p50": float(np.percentile(times["ours"], 50)),
        "p99": float(np.percentile(times["ours"], 99)),
        "sb3_p50": float(np.percentile(times["sb3"], 50)),
        "batch_4096": float(np.median(times["batch"])),
    }


def run(quick: bool) -> dict[str, Any]:
    """Seconds per decision."""
    need("stable_baselines3", "bench")
    tasks = [measure(name, 200 if quick else 3000) for name in TASKS]
    bars = []
    for row in tasks:
        bars.append(Bar(f"{row['task']} p50 in µs", 1e6 * row["p50"], 1e6 * P50, at_least=False))
        bars.append(Bar(f"{row['task']} over SB3's", row["p50"] / row["sb3_p50"], 1.0, at_least=False))
    return {"tasks": tasks, "bars": bars}


def table(report: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = ["| task | p50 | p99 | SB3 p50 | batch of 4,096 |", "|---|---|---|---|---|"]
    for row in report["tasks"]:
        cells = [f"{1e6 * row[key]:,.0f} µs" for key in ("p50", "p99", "sb3_p50", "batch_4096")]
        lines.append(f"| {row['task']} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main("latency", run, table)
