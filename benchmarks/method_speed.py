"""How fast do methods train? Steps per second, one update per step; and what batched projection is worth.

Contenders take turns in groups that all contain SAC: a method's figure is its speed relative to SAC's in the same
rounds, times SAC's median over all of them. For two projection methods the peer is the same method that also calls
cvxpy and Clarabel, at a tolerance of 1e-6 and with the problem compiled once, for every sample: each action that is
executed, and, for NFW, every projection and linear programme of the update.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from benchmarks.harness import Bar, main, need
from benchmarks.turns import Advance, Rounds, ratio, serve, take_turns

MODULE = "benchmarks.method_speed"
TASKS = ("R+L2", "R+D", "H+M", "HC+O")
HIDDEN, BATCH, WARM = (256, 256), 256, 300
GROUP, PEER = 7, "SAC"
"""Contenders that wait side by side, each a process; the peer is in every group, since the machine drifts."""


def train(method: str, name: str) -> Advance:
    """A method at work on a task."""
    import cvflows as cv
    from cvflows.agents.methods import METHODS
    from cvflows.envs.wrappers import AllowedOnly
    from cvflows.runs.config import make_config
    from cvflows.runs.fitting import TO_SAMPLES
    from cvflows.runs.train import Trainer

    task = cv.task(name)
    map_ = None
    if METHODS[method].needs_map:
        options: Any = TO_SAMPLES if METHODS[method].fitted_to == "samples" else {"splines": False}
        map_ = cv.make_map(METHODS[method].map, task.constraint, task.contexts, **options)
    changes = {"hidden": HIDDEN, "batch": BATCH, "learning_starts": WARM, "train_every": 1}
    config = make_config(task, method, overrides=changes, evaluate_every=10**9)
    trainer = Trainer(task, config, map_, make_env=lambda: AllowedOnly(task.make_env(), task.constraint, task.reads))
    trainer.run(2 * WARM)
    return lambda steps: trainer.run(trainer.step + steps)


def train_with_solver(method: str, name: str) -> Advance:
    """The same, with every projection and linear programme of a step solved once more, sample by sample."""
    import jax
    import numpy as np

    import cvflows as cv
    from cvflows.constraints.reference import ReferenceSolver

    task, advance = cv.task(name), train(method, name)
    solver = ReferenceSolver(task.constraint, tolerance=1e-6)
    x = np.asarray(task.contexts.sample(jax.random.key(0), BATCH))
    actions = np.random.default_rng(0).uniform(-1, 1, (BATCH, task.action_dim))
    solver.project(x[0], actions[0])
    solver.maximise(x[0], actions[0])

    def with_solver(steps: int) -> None:
        for step in range(steps):
            advance(1)
            solver.project(x[0], actions[0])  # the action that is executed
            if method == "NFW":
                for context, action in zip(x, actions, strict=True):
                    solver.project(context, action)  # the target's
                    if step % 2 == 0:  # the actor's turn
                        solver.project(context, action)
                        solver.maximise(context, action)

    return with_solver


def replaying() -> list[str]:
    """Methods that update at every step; one that learns from rollouts has nothing to compare here."""
    from cvflows.agents.methods import METHODS

    return [name for name, found in METHODS.items() if "train_every" in found.algorithm.Config.names()]


def run(quick: bool) -> dict[str, Any]:
    """Steps per second of every method on four tasks."""
    need("cvxpy", "solver")
    rounds, steps = (1, 100) if quick else (3, 200)
    found: Rounds = {}
    relative: dict[str, float] = {}
    tasks = TASKS[:1] if quick else TASKS
    for name in tasks:
        others = [method for method in replaying() if method != PEER]
        for start in range(0, len(others), GROUP - 1):
            group = {method: ["train", method, name] for method in (PEER, *others[start : start + GROUP - 1])}
            turns = take_turns(MODULE, group, steps, rounds)
            found |= {f"{name} {method} {start}": values for method, values in turns.items()}
            relative |= {f"{name} {method}": ratio(turns, method, PEER) for method in group}
    usual = {
        name: statistics.median(v for key, values in found.items() if key.startswith(f"{name} {PEER} ") for v in values)
        for name in tasks
    }
    speed = {key: share * usual[key.split(" ")[0]] for key, share in relative.items()}
    if not quick:
        draw(speed, Path(__file__).resolve().parent.parent / "docs" / "images" / "method-speed.png")
    rows, bars = [], []
    for name in ("R+L2",) if quick else ("R+L2", "H+M", "HC+O"):  # R+D is not convex: the solver has no form of it
        for method, count in (("DPre+", steps), ("NFW", 4)):
            group = {which: [which, method, name] for which in ("train", "train_with_solver")}
            both = take_turns(MODULE, group, count, rounds)
            faster = ratio(both, "train", "train_with_solver")
            rows.append({"task": name, "method": method, "faster": faster})
            if method == "NFW":
                bars.append(Bar(f"{name} NFW over a solver per sample", faster, 10.0))
    return {"steps_per_second": speed, "rounds": found, "against_solver": rows, "bars": bars}


def draw(speed: dict[str, float], path: Path) -> None:
    """Steps per second of every method, one panel per task; methods with a map in another colour."""
    from matplotlib.figure import Figure

    from cvflows.agents.methods import METHODS

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    panels = figure.subplots(1, len(TASKS), sharey=True)
    methods = replaying()[::-1]
    for panel, name in zip(panels, TASKS, strict=True):
        colours = ["#c8553d" if METHODS[method].needs_map else "#1f4e79" for method in methods]
        panel.barh(methods, [speed[f"{name} {method}"] for method in methods], color=colours, height=0.7)
        panel.set(title=name, xlabel="steps per second")
        panel.tick_params(labelsize=8)
        panel.grid(axis="x", alpha=0.3)
    figure.savefig(path, dpi=110)


def table(report: dict[str, Any]) -> str:
    """Methods by tasks."""
    speed = report["steps_per_second"]
    tasks = [name for name in TASKS if any(key.startswith(f"{name} ") for key in speed)]
    lines = [f"| steps/s | {' | '.join(tasks)} |", "|---" * (len(tasks) + 1) + "|"]
    for method in dict.fromkeys(key.split(" ", 1)[1] for key in speed):
        cells = [f"{speed[' '.join((name, method))]:.0f}" for name in tasks]
        lines += [f"| {method} | {' | '.join(cells)} |"]
    for row in report["against_solver"]:
        lines += [f"\n{row['method']} on {row['task']}: {row['faster']:.1f} times as fast as with a solver per sample."]
    return "\n".join(lines)


if __name__ == "__main__" and not serve({"train": train, "train_with_solver": train_with_solver}):
    main("method_speed", run, table)
