"""How many minutes until a robot moves as well as the paper's best? Ours and Stable-Baselines3, one core each.

Every contender trains for the same time. Its clock stops while ten episodes of its deterministic policy are played,
every half a minute of training; the paper's best return on the task counts as reached at the first of three
evaluations in a row that are at least as high. Stable-Baselines3 learns behind `FeasibleActions`, so that nobody
executes a forbidden action. A part is one contender on one task, kept in the journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from benchmarks.harness import ROOT, Bar, main, need
from benchmarks.journal import Job, Journal, run_parts

if TYPE_CHECKING:
    from cvflows.tasks.base import Task

TASKS = ("H+M", "H+D", "W+M", "HC+O")
OURS = ("PPO+CVFlow", "SAC+CVFlow", "DDPG+CVFlow", "SPre+")
PEERS = ("SB3 PPO", "SB3 SAC")
MINUTES = 20.0
EVERY = 0.5
"""Minutes of training between evaluations."""
EPISODES, HELD = 10, 3
STEPS = {"HC+O": 3_000_000}
"""What our PPO spreads its schedules over, where it is not two million."""


class Learning(NamedTuple):
    """A contender: trains for about that many seconds, plays episodes and says how many steps it has taken."""

    train: Callable[[float], None]
    evaluate: Callable[[], float]
    steps: Callable[[], int]
    over: Callable[[], bool]


class Peer(Protocol):
    """An agent of Stable-Baselines3."""

    num_timesteps: int

    def learn(self, total_timesteps: int, *, callback: Callable[..., bool], reset_num_timesteps: bool) -> object:
        """Train until the callback says no."""

    def predict(self, observation: object, *, deterministic: bool) -> tuple[Any, object]:
        """Act."""


def ours(task: Task, method: str, seed: int) -> Learning:
    """One of our methods, with its preset."""
    from cvflows.runs.config import make_config
    from cvflows.runs.preparation import fitted_map
    from cvflows.runs.train import Trainer

    steps = STEPS.get(task.name, 2_000_000) if method.startswith("PPO") else None
    config = make_config(task, method, steps=steps, seed=seed, evaluate_every=10**9)
    trainer = Trainer(task, config, fitted_map(task, config))

    def train(seconds: float) -> None:
        end = time.perf_counter() + seconds
        chunk = 64 * config.num_envs
        while time.perf_counter() < end and trainer.step < config.steps:
            trainer.run(min(trainer.step + chunk, config.steps))

    trainer.run(config.num_envs)  # what is compiled first is not training
    return Learning(
        train,
        lambda: trainer.evaluate(EPISODES)["return"],
        lambda: trainer.step,
        lambda: trainer.step >= config.steps,
    )


def theirs(task: Task, name: str, seed: int) -> Learning:
    """An agent of Stable-Baselines3 with its own settings, behind the guard."""
    import stable_baselines3

    import cvflows as cv

    def make_env() -> Any:
        return cv.FeasibleActions(task.make_env(), task.constraint, task.reads)

    env = make_env()
    agent: Peer = getattr(stable_baselines3, name.split()[1])("MlpPolicy", env, seed=seed, device="cpu")
    scored = make_env()

    def train(seconds: float) -> None:
        end = time.perf_counter() + seconds
        agent.learn(10**9, callback=lambda *_: time.perf_counter() < end, reset_num_timesteps=False)

    def evaluate() -> float:
        total = 0.0
        for episode in range(EPISODES):
            observation, over = scored.reset(seed=10_000 * (seed + 1) + episode)[0], False
            while not over:
                action, _ = agent.predict(observation, deterministic=True)
                observation, reward, terminated, truncated, _ = scored.step(action)
                total, over = total + float(reward), terminated or truncated
        return total / EPISODES

    return Learning(train, evaluate, lambda: agent.num_timesteps, lambda: False)


def race(name: str, contender: str, minutes: float, seed: int) -> dict[str, Any]:
    """Returns over the minutes that one contender has trained."""
    import cvflows as cv

    task = cv.task(name)
    learning = (theirs if contender in PEERS else ours)(task, contender, seed)
    spent, curve = 0.0, []
    while spent < 60 * minutes and not learning.over():
        began = time.perf_counter()
        learning.train(min(60 * EVERY, 60 * minutes - spent))
        spent += time.perf_counter() - began
        curve.append((round(spent / 60, 3), learning.steps(), learning.evaluate()))
    return {"curve": curve, "steps": learning.steps()}


def reached(curve: Sequence[tuple[float, int, float]], goal: float) -> float | None:
    """Minutes at the first of three evaluations in a row that reach the goal; None where there are none."""
    for index in range(len(curve) - HELD + 1):
        if all(value >= goal for _, _, value in curve[index : index + HELD]):
            return curve[index][0]
    return None


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Minutes to the paper's best, and the best return, of every contender on every task."""
    from cvflows.reports.paper import best_reported

    if not quick:
        need("stable_baselines3", "bench")
    tasks, contenders = (("H+M",), ("PPO+CVFlow",)) if quick else (TASKS, (*OURS, *PEERS))
    minutes = 0.2 if quick else MINUTES
    jobs: list[Job] = [(name, contender, minutes, 0) for name in tasks for contender in contenders]
    rows = run_parts(race, jobs, "racing", journal, apart=True)
    races = []
    for (name, contender, *_), row in zip(jobs, rows, strict=True):
        best = best_reported(name)
        assert best is not None
        curve = row["figures"]["curve"]
        found = {"task": name, "contender": contender, "goal": best["mean"], "minutes": reached(curve, best["mean"])}
        races.append({**found, "best": max(value for _, _, value in curve), **row["figures"]})
    if journal.path is not None:
        draw(races)
    return {"races": races, "bars": [] if quick else list(map(lead, tasks, [races] * len(tasks)))}


def lead(name: str, races: Sequence[dict[str, Any]]) -> Bar:
    """How much longer the fastest peer takes than our fastest; the time limit counts for those that do not arrive."""
    fastest = {
        group: min(MINUTES if race["minutes"] is None else race["minutes"] for race in races if _is(race, name, group))
        for group in (OURS, PEERS)
    }
    return Bar(f"{name}: minutes of SB3's fastest over ours", fastest[PEERS] / fastest[OURS], 1.0)


def _is(race: dict[str, Any], name: str, group: Sequence[str]) -> bool:
    return race["task"] == name and race["contender"] in group


def draw(races: Sequence[dict[str, Any]]) -> None:
    """Returns over minutes, one panel per task, the paper's best as a line."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from benchmarks.learning_figures import COLOURS

    tasks = list(dict.fromkeys(race["task"] for race in races))
    figure = Figure(figsize=(3.4 * len(tasks), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    colours = dict(zip((*OURS, *PEERS), COLOURS, strict=True))
    for name, panel in zip(tasks, panels, strict=True):
        for race in (race for race in races if race["task"] == name):
            minutes, _, returns = zip(*race["curve"], strict=True)
            dashed = "--" if race["contender"] in PEERS else "-"
            panel.plot(minutes, returns, dashed, color=colours[race["contender"]], lw=1.6, label=race["contender"])
        panel.axhline(races[[race["task"] for race in races].index(name)]["goal"], color="#888", lw=1, ls=":")
        panel.set(title=name, xlabel="minutes of training, one core")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("return of the deterministic policy")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(ROOT / "docs" / "images" / "time-to-return.png", dpi=110)


def table(report: dict[str, Any]) -> str:
    """Minutes to the paper's best, and the best return within the time."""
    lines = ["| task | paper's best | contender | minutes to it | best return | steps |", "|---" * 6 + "|"]
    for race in report["races"]:
        minutes = "–" if race["minutes"] is None else f"{race['minutes']:.1f}"
        cells = [race["task"], f"{race['goal']:,.0f}", race["contender"], minutes, f"{race['best']:,.0f}"]
        lines.append(f"| {' | '.join(cells)} | {race['steps']:,} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main("time_to_return", run, table, parts="races")
