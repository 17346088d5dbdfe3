"""Maps compared by what agents learn through them: runs, their figures, and the grid that such a comparison is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.journal import Job, Journal, Row, run_parts

if TYPE_CHECKING:
    from cvflows.runs.config import RunConfig
    from cvflows.tasks.base import Task

FREE = {"W+M": "Walker2d-v5", "HC+O": "HalfCheetah-v5"}
"""Robots without a constraint."""
EPISODES = 50
Run = dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """Tasks × ways × seeds; a part is one run, kept in the journal.

    - `steps` of every task; `ways` to act, by the names that tables use: method, kind of map, and what else a `Setup`
      has; `quick`: the way that a quick look tries, on the first task; `quick_steps` of it.
    """

    name: str
    steps: Mapping[str, int]
    seeds: int
    ways: Mapping[str, tuple[Any, ...]]
    quick: str
    quick_steps: int = 4096

    def parts(self, quick: bool) -> list[tuple[str, Job]]:
        """Every run: the name of its way, and the arguments of `train`; one seed of everything before the second."""
        steps = {next(iter(self.steps)): self.quick_steps} if quick else self.steps
        ways = (self.quick,) if quick else self.ways
        return [
            (way, (task, *self.ways[way][:2], count, seed, *self.ways[way][2:]))
            for seed in range(1 if quick else self.seeds)
            for way in ways
            for task, count in steps.items()
        ]

    def run(self, quick: bool, journal: Journal) -> dict[str, Any]:
        """Train what is missing; figures of every run."""
        parts = self.parts(quick)
        rows = run_parts(train, [job for _, job in parts], "training", journal, config=settings_of)
        return {"runs": _runs(parts, rows), "bars": []}

    def recorded(self, folder: Path) -> list[Run]:
        """Figures of the runs that a folder of results holds with today's settings."""
        journal, parts = Journal(folder / f"{self.name}.jsonl", self.name), self.parts(False)
        rows = [journal.find(journal.part(job, settings_of(*job))) for _, job in parts]
        there = [(part, row) for part, row in zip(parts, rows, strict=True) if row is not None]
        return _runs([part for part, _ in there], [row for _, row in there])

    def table(self, report: dict[str, Any]) -> str:
        """Means and every seed, by task and way."""
        return table(report, self.ways)


def _runs(parts: Sequence[tuple[str, Job]], rows: Sequence[Row]) -> list[Run]:
    return [
        {**row["figures"], "task": job[0], "way": way, "steps": job[3], "seed": job[4]}
        for (way, job), row in zip(parts, rows, strict=True)
    ]


class Setup(NamedTuple):
    """What a run is, as the arguments of a part.

    - `kind` of map; `free`: without the constraint; `transport`: weight of that term in the fit of the map; `changes`
      in the algorithm's settings, as in `entropy=exact`.
    """

    name: str
    method: str
    kind: str | None
    steps: int
    seed: int
    free: bool = False
    transport: float = 0.0
    changes: str = ""

    @property
    def task(self) -> Task:
        """The task, or its robot without a constraint."""
        import cvflows as cv

        found = cv.task(self.name)
        return cv.Task.from_env(FREE[self.name], cv.Box(found.action_dim), name=self.name) if self.free else found

    @property
    def config(self) -> RunConfig:
        """The settings of the run."""
        from cvflows.runs.config import make_config

        options: dict[str, Any] = {"map": self.kind, "final_episodes": EPISODES}
        options |= {"evaluate_every": max(self.steps // 14, 1)}
        options["overrides"] = dict([self.changes.split("=")]) if self.changes else None
        return make_config(self.task, self.method, steps=self.steps, seed=self.seed, **options)


def settings_of(*job: Any) -> dict[str, Any]:
    """The settings of a part's run as plain data."""
    return Setup(*job).config.as_json()


def train(*job: Any) -> dict[str, Any]:
    """A part's run and its figures."""
    from cvflows.runs.preparation import FITTING, fitted_map
    from cvflows.runs.tally import summarise
    from cvflows.runs.train import Trainer

    setup = Setup(*job)
    config, task = setup.config, setup.task
    trainer = Trainer(task, config, fitted_map(task, config, fitting=replace(FITTING, transport=setup.transport)))
    trainer.run()
    curve = [(row["step"], row["return"]) for row in trainer.evaluations]
    training, final = summarise(trainer.episodes), trainer.evaluate(EPISODES)
    trainer.close()
    return {"training": training, "final": final, "curve": curve}


def table(report: dict[str, Any], ways: Iterable[str]) -> str:
    """Means and every seed, by task and way."""
    lines = ["| task | through | return | seeds | % of training steps forbidden |", "|---" * 5 + "|"]
    for name in dict.fromkeys(run["task"] for run in report["runs"]):
        for way in ways:
            some = [run for run in report["runs"] if (run["task"], run["way"]) == (name, way)]
            if some:
                returns = [run["final"]["return"] for run in some]
                asked = sum(run["training"]["cv_percent"] for run in some) / len(some)
                seeds = ", ".join(f"{value:,.0f}" for value in returns)
                lines.append(f"| {name} | {way} | {sum(returns) / len(returns):,.0f} | {seeds} | {asked:.1f} |")
    return "\n".join(lines)
