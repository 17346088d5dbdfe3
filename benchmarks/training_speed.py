"""How fast does it train? Steps per second against Stable-Baselines3 and SBX, and the updates' share of GEMM peak.

Ours is SAC+CVFlow with its map, check and projection; the others are plain SAC on the bare environment, with the same
networks, batch and one update per step. Every contender runs in a process of its own, one after the other, several
rounds; a figure is the median over the rounds. `threads` is what each process may use.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.harness import Bar, main, need

PLACES: dict[str, dict[str, Any]] = {
    "HC+O": {"hidden": (256, 256), "gym": "HalfCheetah-v5", "sb3": 2.2, "sbx": 1.2},
    "Ball3D": {"hidden": (64, 64), "gym": "cvflows/Ball3D-v0", "sb3": 4.5, "sbx": 1.3},
}
PAIRS = (("R+D", "R+L2"), ("H+D", "H+M"))
WARM = 300


def ours(name: str, steps: int, hidden: tuple[int, ...]) -> float:
    """Steps per second of SAC+CVFlow."""
    import cvflows as cv
    from cvflows.envs.wrappers import AllowedOnly
    from cvflows.maps.fit import FitConfig
    from cvflows.runs.config import make_config
    from cvflows.runs.fitting import fit_task
    from cvflows.runs.train import Trainer

    task = cv.task(name)
    if task.limits is not None:
        task = task.learn(episodes=200).task
    map_ = fit_task(task, "auto", FitConfig(steps=100)).fitted.map
    changes = {"hidden": hidden, "batch": 256, "learning_starts": WARM, "train_every": 1}
    config = make_config(task, "SAC+CVFlow", overrides=changes, evaluate_every=10**9)
    trainer = Trainer(task, config, map_, make_env=lambda: AllowedOnly(task.make_env(), task.constraint, task.reads))
    trainer.run(2 * WARM)
    began = time.perf_counter()
    trainer.run(2 * WARM + steps)
    return steps / (time.perf_counter() - began)


def theirs(library: str, env_id: str, steps: int, hidden: tuple[int, ...]) -> float:
    """Steps per second of another library's SAC, without any constraint."""
    import importlib

    import gymnasium

    import cvflows  # noqa: F401 - registers its environments

    options = {"guard": False} if env_id.startswith("cvflows") else {}
    env = gymnasium.make(env_id, **options)
    sac = importlib.import_module({"sb3": "stable_baselines3", "sbx": "sbx"}[library]).SAC
    agent = sac(
        "MlpPolicy", env, batch_size=256, learning_starts=WARM, policy_kwargs={"net_arch": list(hidden)}, seed=0
    )
    agent.learn(2 * WARM)
    began = time.perf_counter()
    agent.learn(steps, reset_num_timesteps=False)
    return steps / (time.perf_counter() - began)


def gemm_share(name: str, hidden: tuple[int, ...]) -> dict[str, float]:
    """Floating-point operations of an update, by the compiler's count, per second, over those of a large product."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import cvflows as cv
    from cvflows.agents.base import Settings
    from cvflows.agents.learner import Learner
    from cvflows.agents.methods import method
    from cvflows.runs.acting import make_problem

    task = cv.task(name)
    map_ = cv.make_map("auto", task.constraint, task.contexts, splines=False)
    learner = Learner(method("SAC+CVFlow"), Settings(hidden=hidden), make_problem(task), map_)
    rows = np.random.default_rng(0).normal(size=(1, 256, learner.row_width)).astype(np.float32)
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((1, 2, 256, task.action_dim), np.float32)
    compiled: Any = learner._update.lower(learner.state, learner.frozen, rows, noise).compile()
    flops = compiled.cost_analysis()["flops"]
    side = 1024
    a = jnp.ones((side, side))
    product = jax.jit(lambda a: a @ a)
    product(a).block_until_ready()
    shares = []
    for _ in range(7):
        began = time.perf_counter()
        for _ in range(5):
            product(a).block_until_ready()
        peak = 5 * 2 * side**3 / (time.perf_counter() - began)
        began = time.perf_counter()
        for _ in range(20):
            learner.update(rows, rng)
        jax.block_until_ready(learner.state)
        shares.append((20 * flops / (time.perf_counter() - began) / peak, peak, flops))
    share, peak, flops = sorted(shares)[len(shares) // 2]
    return {"share": share, "peak_gflops": peak / 1e9, "update_mflop": flops / 1e6}


def in_process(what: list[Any], threads: int) -> Any:
    """Run one measurement in a fresh process."""
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1" if threads == 1 else ""
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    environment = {**os.environ, **limits, "XLA_FLAGS": flags}
    command = [sys.executable, "-m", "benchmarks.training_speed", "--part", json.dumps(what)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def run(quick: bool) -> dict[str, Any]:
    """Training speed of SAC+CVFlow beside two libraries without constraints."""
    need("stable_baselines3", "bench")
    need("sbx", "bench")
    rounds, steps = (1, 300) if quick else (3, 2000)
    threads = int(os.environ.get("CVFLOWS_THREADS", "1"))
    jobs: dict[str, list[Any]] = {}
    for name, place in PLACES.items():
        jobs[f"{name} cvflows"] = ["ours", name, steps, place["hidden"]]
        for library in ("sb3", "sbx"):
            jobs[f"{name} {library}"] = ["theirs", library, place["gym"], steps, place["hidden"]]
    for name in (name for pair in PAIRS for name in pair):
        jobs[f"{name} cvflows"] = ["ours", name, steps, (256, 256)]
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            found[name].append(in_process(job, threads))
            print(f"{name}: {found[name][-1]:.0f} steps/s", file=sys.stderr, flush=True)
    speed = {name: statistics.median(values) for name, values in found.items()}
    gemm = in_process(["gemm_share", "HC+O", (256, 256)], threads)
    bars = [
        Bar(f"{name} over {library}", speed[f"{name} cvflows"] / speed[f"{name} {library}"], float(place[library]))
        for name, place in PLACES.items()
        for library in ("sb3", "sbx")
    ]
    for slow, fast in PAIRS:
        bars.append(Bar(f"{slow} over {fast}", speed[f"{slow} cvflows"] / speed[f"{fast} cvflows"], 0.9))
    bars.append(Bar("update's share of GEMM peak", gemm["share"], 0.6))
    return {"threads": threads, "steps_per_second": speed, "rounds": found, "gemm": gemm, "bars": bars}


def table(report: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = ["| run | steps/s |", "|---|---|"]
    lines += [f"| {name} | {speed:,.0f} |" for name, speed in report["steps_per_second"].items()]
    gemm = report["gemm"]
    lines.append(
        f"\nAn update of HC+O takes {gemm['update_mflop']:.0f} MFLOP and reaches {gemm['share']:.0%} of GEMM peak."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    if "--part" in sys.argv:
        part, *arguments = json.loads(sys.argv[-1])
        arguments = [tuple(value) if isinstance(value, list) else value for value in arguments]
        parts: dict[str, Any] = {"ours": ours, "theirs": theirs, "gemm_share": gemm_share}
        print(json.dumps(parts[part](*arguments)))
    else:
        main("training_speed", run, table)
