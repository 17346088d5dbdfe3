"""How fast does it train? Steps per second against Stable-Baselines3 and SBX, and the updates' share of GEMM peak.

Ours is SAC+CVFlow as its preset has it, with map, check and projection; the others are plain SAC on the bare
environment. All have the same networks and batch, and one update of the critics per step. On robots the preset updates
the actor every second time and multiplies in bfloat16; "as theirs" is without either. Contenders take turns of a few
seconds, each in a process of its own; a ratio is the median over the rounds. CVFLOWS_THREADS is what each process may
use, one by default.
"""

from __future__ import annotations

import os
import statistics
from typing import Any

from benchmarks.harness import Bar, main, need
from benchmarks.turns import Advance, Rounds, ratio, serve, take_turns

MODULE = "benchmarks.training_speed"
LIBRARIES = ("sb3", "sbx")
PRECISIONS = ("float32", "bfloat16")

PLACES: dict[str, dict[str, Any]] = {
    "HC+O": {"hidden": (256, 256), "gym": "HalfCheetah-v5", "sb3": 2.5, "sbx": 1.4},
    "Ball3D": {"hidden": (64, 64), "gym": "cvflows/Ball3D-v0", "sb3": 5.5, "sbx": 2.0},
}
AS_THEIRS: dict[str, Any] = {"precision": "float32", "actor_every": 1, "critic_norm": False, "n_steps": 1}
PAIRS = (("R+D", "R+L2"), ("H+D", "H+M"))
SHARE = 0.65
"""Of the machine's fastest matrix product, for an update in float32."""
WARM = 300
SIDE = 1024


def ours(name: str, hidden: tuple[int, ...], changes: dict[str, Any]) -> Advance:
    """SAC+CVFlow, every action checked once more before the environment gets it."""
    import cvflows as cv
    from cvflows.envs.wrappers import AllowedOnly
    from cvflows.maps.fit import FitConfig
    from cvflows.runs.config import make_config
    from cvflows.runs.preparation import fitted_map
    from cvflows.runs.train import Trainer

    task = cv.task(name)
    if task.limits is not None:
        task = task.learn(episodes=200, self_test=0).task
    changes = {"hidden": hidden, "batch": 256, "learning_starts": WARM, **changes}
    config = make_config(task, "SAC+CVFlow", overrides=changes, evaluate_every=10**9)
    map_ = fitted_map(task, config, fitting=FitConfig(steps=100))
    trainer = Trainer(task, config, map_, make_env=lambda: AllowedOnly(task.make_env(), task.constraint, task.reads))
    trainer.run(2 * WARM)
    return lambda steps: trainer.run(trainer.step + steps)


def theirs(library: str, env_id: str, hidden: tuple[int, ...]) -> Advance:
    """Another library's SAC, without any constraint."""
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
    return lambda steps: agent.learn(steps, reset_num_timesteps=False)


def updates(name: str, hidden: tuple[int, ...], changes: dict[str, Any]) -> Advance:
    """Updates of SAC+CVFlow alone, on the same rows."""
    import jax
    import numpy as np

    learner, rows = _learner(name, hidden, changes)
    rng = np.random.default_rng(1)

    def advance(steps: int) -> None:
        for _ in range(steps):
            draws = learner.algorithm.draw(rng, rows)
            learner.state, _ = learner._learn(learner.state, learner.frozen, rows, draws)
        jax.block_until_ready(learner.state)

    advance(3)
    return advance


def products(side: int) -> Advance:
    """Products of two large matrices."""
    import jax
    import jax.numpy as jnp

    a = jnp.ones((side, side))
    product = jax.jit(lambda a: a @ a)

    def advance(steps: int) -> None:
        for _ in range(steps):
            product(a).block_until_ready()

    advance(3)
    return advance


def _learner(name: str, hidden: tuple[int, ...], changes: dict[str, Any]) -> tuple[Any, Any]:
    import numpy as np

    import cvflows as cv
    from cvflows.agents.learner import Learner
    from cvflows.agents.methods import method
    from cvflows.runs.acting import make_problem

    task = cv.task(name)
    map_ = cv.make_map("auto", task.constraint, task.contexts, splines=False)
    found = method("SAC+CVFlow")
    learner = Learner(found, found.configure({"hidden": hidden, **changes}), make_problem(task), map_)
    width = 2 * task.observation_dim + task.action_dim + 2
    return learner, np.random.default_rng(0).normal(size=(1, 256, width)).astype(np.float32)


def flops_of_update(name: str, hidden: tuple[int, ...]) -> float:
    """Floating-point operations of an update of critics and actor, by the compiler's count."""
    import numpy as np

    learner, rows = _learner(name, hidden, AS_THEIRS)
    noise = np.zeros((1, 2, 256, learner.problem.action_dim), np.float32)
    compiled: Any = learner._learn.lower(learner.state, learner.frozen, rows, noise).compile()
    return float(compiled.cost_analysis()["flops"])


def run(quick: bool) -> dict[str, Any]:
    """Training speed of SAC+CVFlow beside two libraries without constraints."""
    need("stable_baselines3", "bench")
    need("sbx", "bench")
    rounds, steps = (2, 200) if quick else (9, 500)
    threads = int(os.environ.get("CVFLOWS_THREADS", "1"))
    found: Rounds = {}
    bars = []
    for name, place in PLACES.items():
        ways = {"cvflows": {}, "cvflows, as theirs": AS_THEIRS}
        group: dict[str, list[Any]] = {
            f"{name} {way}": ["ours", name, place["hidden"], changes] for way, changes in ways.items()
        }
        group |= {f"{name} {library}": ["theirs", library, place["gym"], place["hidden"]] for library in LIBRARIES}
        found |= take_turns(MODULE, group, steps, rounds, threads)
        for library in LIBRARIES:
            faster = ratio(found, f"{name} cvflows", f"{name} {library}")
            bars.append(Bar(f"{name} over {library}", faster, float(place[library])))
    for slow, fast in PAIRS:
        group = {f"{name} cvflows": ["ours", name, (256, 256), {}] for name in (slow, fast)}
        found |= take_turns(MODULE, group, steps, rounds, threads)
        bars.append(Bar(f"{slow} over {fast}", ratio(found, f"{slow} cvflows", f"{fast} cvflows"), 0.9))
    work: dict[str, list[Any]] = {
        precision: ["updates", "HC+O", (256, 256), AS_THEIRS | {"precision": precision}] for precision in PRECISIONS
    }
    both = take_turns(MODULE, work | {"products": ["products", SIDE]}, 20, rounds, threads)
    flops = flops_of_update("HC+O", (256, 256))
    share = {name: ratio(both, name, "products") * flops / (2 * SIDE**3) for name in PRECISIONS}
    bars.append(Bar("update's share of GEMM peak", share["float32"], SHARE))
    peak = statistics.median(both["products"]) * 2 * SIDE**3
    gemm = {"share": share["float32"], "share_bfloat16": share["bfloat16"]}
    gemm |= {"peak_gflops": peak / 1e9, "update_mflop": flops / 1e6}
    speed = {name: statistics.median(values) for name, values in found.items()}
    return {"threads": threads, "steps_per_second": speed, "rounds": found, "gemm": gemm, "bars": bars}


def table(report: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = ["| run | steps/s |", "|---|---|"]
    lines += [f"| {name} | {speed:,.0f} |" for name, speed in report["steps_per_second"].items()]
    gemm = report["gemm"]
    lines.append(
        f"\nAn update of HC+O takes {gemm['update_mflop']:.0f} MFLOP and reaches {gemm['share']:.0%} of the float32 "
        f"GEMM peak; with products in bfloat16, {gemm['share_bfloat16']:.0%} of it."
    )
    return "\n".join(lines)


if __name__ == "__main__" and not serve({"ours": ours, "theirs": theirs, "updates": updates, "products": products}):
    main("training_speed", run, table)
