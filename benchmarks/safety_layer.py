"""Does a learned constraint keep states safe, whatever the agent wants?

Uniformly random actions, full thrust at the target, and constant full thrust at a wall, passed through each form of
learned constraint and through none: the share of episodes that end by leaving the true region. Models come from 1,000
random episodes; a seed draws its own model, starts and actions. Pole is the world that is not linear. The robots of
`state_limits.py` follow: every form, with random and with pushing actions, and an agent trained on one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness import Bar, main
from benchmarks.journal import Journal, run_parts
from benchmarks.state_limits import FORMS as ROBOT_FORMS
from benchmarks.state_limits import POLICIES, ROBOTS, TRAINED, train, try_robot

TASKS = ("Ball1D", "Ball3D", "Space-Corridor", "Space-Arena", "Pole")
FORMS = ("none", "paper", "drift", "stopping")
BARRED = (("Ball1D", "paper"), ("Ball3D", "paper"), ("Space-Corridor", "stopping"), ("Space-Arena", "stopping"))
KEPT = ("InvertedPendulum", "Pendulum-Strong")
MOST, MOST_STEPS, MOST_CHANGED = 0.5, 0.1, 35.0
Policy = Callable[[np.ndarray], np.ndarray]
Row = dict[str, Any]


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
    count, length = (4, 60) if quick else (40, 300)
    robots = [(n, form, seed, count, length) for n in ROBOTS for form in ROBOT_FORMS for seed in range(seeds)]
    tried = [row["figures"] for row in run_parts(try_robot, robots, "robots", journal)]
    name, method, steps = TRAINED
    training = [(name, method, seed, 4_000 if quick else steps, 2 if quick else 20) for seed in range(seeds)]
    agents = [row["figures"] for row in run_parts(train, training, "training", journal)]
    parts = {"results": results, "robots": tried, "trained": agents}
    return {"episodes": episodes, **parts, "bars": [*bars(results), *robot_bars(results, tried, agents)]}


def bars(results: list[dict[str, Any]]) -> Iterator[Bar]:
    """The mean over the seeds must do."""
    for name, form in BARRED:
        rows = [row for row in results if (row["task"], row["form"]) == (name, form)]
        for policy in ("random", "wall"):
            share = float(np.mean([row[policy]["violated"] for row in rows]))
            yield Bar(f"{name} {form} {policy}: % violated", share, MOST, at_least=False)


def robot_bars(results: list[Row], robots: list[Row], agents: list[Row]) -> Iterator[Bar]:
    """The pole changes few actions, robots that can be kept are, and a trained agent stays below its limit."""
    pole = [row["random"]["projected"] for row in results if (row["task"], row["form"]) == ("Pole", "stopping")]
    yield Bar("Pole stopping random: % projected", float(np.mean(pole)), MOST_CHANGED, at_least=False)
    for name in KEPT:
        rows = [row for row in robots if row["task"] == name and row["own"] and "refused" not in row]
        for policy in POLICIES:
            share = float(np.mean([row[policy]["episodes"] for row in rows]))
            yield Bar(f"{name} {policy}: % of episodes", share, MOST, at_least=False)
    unsafe = float(np.mean([row["unsafe_percent"] for row in agents]))
    yield Bar(f"{' '.join(map(str, TRAINED))}: % of steps", unsafe, MOST_STEPS, at_least=False)


def robot_table(rows: list[Row]) -> Iterator[str]:
    """Mean over the seeds; the form that a task has by default is marked."""
    heads = [f"{policy}: {what}" for policy in POLICIES for what in ("episodes", "steps", "changed")]
    yield f"| task | form | {' | '.join(heads)} |"
    yield "|---" * (2 + len(heads)) + "|"
    for name in ROBOTS:
        for form in ROBOT_FORMS:
            some = [row for row in rows if (row["task"], row["form"]) == (name, form)]
            kept = [row for row in some if "refused" not in row]
            if not kept:
                yield f"| {name} | {form} | {' | '.join(['refused'] * len(heads))} |"
                continue
            cells = [
                f"{np.mean([row[policy][what] for row in kept]):.2f} %"
                for policy in POLICIES
                for what in ("episodes", "steps", "changed")
            ]
            yield f"| {name} | {form}{' *' if kept[0]['own'] else ''} | {' | '.join(cells)} |"


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
    lines += ["", *robot_table(report["robots"]), "", *(str(row) for row in report["trained"])]
    return "\n".join(lines)


if __name__ == "__main__":
    main("safety_layer", run, table, parts="results")
