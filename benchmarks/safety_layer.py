"""Does a learned constraint keep states safe, whatever the agent wants?

Uniformly random actions, full thrust at the target, and constant full thrust at a wall, passed through each form of
learned constraint and through none: the share of episodes that end by leaving the true region. Models come from 1,000
random episodes; a seed draws its own model, starts and actions. Pole is the world that is not linear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness import Bar, main
from benchmarks.journal import Journal, run_parts

TASKS = ("Ball1D", "Ball3D", "Space-Corridor", "Space-Arena", "Pole")
FORMS = ("none", "paper", "drift", "stopping")
BARRED = (("Ball1D", "paper"), ("Ball3D", "paper"), ("Space-Corridor", "stopping"), ("Space-Arena", "stopping"))
MOST = 0.5
Policy = Callable[[np.ndarray], np.ndarray]


def policies(name: str, dim: int, rng: np.random.Generator) -> dict[str, Policy]:
    """What an agent may want, for one episode."""
    wall = np.zeros(dim, np.float32)
    wall[0 if name == "Space-Corridor" else rng.integers(dim)] = rng.choice([-1.0, 1.0])

    def thrust(observation: np.ndarray) -> np.ndarray:
        if name.startswith("Space"):
            goal = np.array([0.5, 1.0] if name == "Space-Corridor" else [0.8, 0.8])
        else:
            goal = observation[-dim:]
        way = goal - observation[:dim]
        return (way / max(np.abs(way).max(), 1e-6)).astype(np.float32)

    return {
        "random": lambda observation: rng.uniform(-1, 1, dim).astype(np.float32),
        "thrust": thrust,
        "wall": lambda observation: wall,
    }


def try_form(name: str, form: str, seed: int, episodes: int) -> dict[str, Any]:
    """One task, one form, one seed: every policy."""
    from cvflows.envs.worlds import ARRIVED, LEFT
    from cvflows.tasks.catalogue import task as find_task

    task = find_task(name)
    error = None
    if form == "none":
        env = task.make_env()
    else:
        learned = task.learn(form, seed=seed, self_test=0)
        env = learned.task.make_env(guard=True)
        error = max(signal.error / signal.spread for signal in learned.learned.signals)
    result: dict[str, Any] = {"task": name, "form": form, "seed": seed, "held_out_error": error}
    for policy in ("random", "thrust", "wall"):
        rng = np.random.default_rng(1000 + seed)
        left = arrived = projected = steps = 0
        for episode in range(episodes):
            observation, _ = env.reset(seed=100_000 * (1 + seed) + episode)
            want = policies(name, task.action_dim, rng)[policy]
            done, info = False, dict[str, Any]()
            while not done:
                observation, _, terminated, truncated, info = env.step(want(observation))
                projected += info.get("projected", False)
                steps += 1
                done = terminated or truncated
            left += info["ended"] == LEFT
            arrived += info["ended"] == ARRIVED
        shares = {"violated": left, "arrived": arrived}
        result[policy] = {key: 100 * value / episodes for key, value in shares.items()}
        result[policy] |= {"projected": 100 * projected / steps, "steps": steps}
    return result


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Episodes ended by a violation, in percent, per task, form and policy."""
    seeds, episodes = (1, 20) if quick else (3, 300)
    jobs = [(name, form, seed, episodes) for name in TASKS for form in FORMS for seed in range(seeds)]
    results = [row["figures"] for row in run_parts(try_form, jobs, "passing through safety layers", journal)]
    return {"episodes": episodes, "results": results, "bars": list(bars(results))}


def bars(results: list[dict[str, Any]]) -> Iterator[Bar]:
    """The mean over the seeds must do."""
    for name, form in BARRED:
        rows = [row for row in results if (row["task"], row["form"]) == (name, form)]
        for policy in ("random", "wall"):
            share = float(np.mean([row[policy]["violated"] for row in rows]))
            yield Bar(f"{name} {form} {policy}: % violated", share, MOST, at_least=False)


def table(report: dict[str, Any]) -> str:
    """Mean over the seeds as Markdown."""
    heads = [f"{policy}: {what}" for policy in ("random", "thrust", "wall") for what in ("violated", "projected")]
    lines = [f"| task | form | held-out error | {' | '.join(heads)} |", "|---" * (3 + len(heads)) + "|"]
    for name in TASKS:
        for form in FORMS:
            rows = [row for row in report["results"] if (row["task"], row["form"]) == (name, form)]
            cells = [
                f"{np.mean([row[policy][what] for row in rows]):.1f} %"
                for policy in ("random", "thrust", "wall")
                for what in ("violated", "projected")
            ]
            error = "" if form == "none" else f"{np.mean([row['held_out_error'] for row in rows]):.1e}"
            lines.append(f"| {name} | {form} | {error} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main("safety_layer", run, table, parts="results")
