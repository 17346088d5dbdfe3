"""Grids: tasks × methods × seeds, each a run in a folder of its own, and what the runs of a task share."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from cvflows.agents.methods import Method, method
from cvflows.errors import ArgumentError, StoreError, UnknownNameError, dimension, quoted
from cvflows.files import MOST_JSON, read_bytes
from cvflows.runs.config import RunConfig, make_config, method_of
from cvflows.tasks.catalogue import task as find_task

SHARED = "shared"
"""Folder, beside those of the tasks, of maps and learned constraints."""


@dataclass(frozen=True)
class Grid:
    """Which runs there are.

    - `tasks`, `methods`: names, in any case; `seeds`: a list, or how many.
    - `steps`: of every run, or a table of them by task; by default those of the preset.
    - `set`: hyper-parameters to override; the others are of `RunConfig` and `make_config`.
    """

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...] | int = (0,)
    steps: int | Mapping[str, int] | None = None
    preset: str = "tuned"
    form: str = "stopping"
    evaluate_every: int = 5_000
    evaluation_episodes: int = 5
    final_episodes: int = 100
    checkpoint_every: int = 10_000
    set: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("tasks", "methods"):
            given = getattr(self, name)
            if not isinstance(given, (tuple, list)) or not all(isinstance(one, str) for one in given):
                raise ArgumentError(name, "a list of names", quoted(given))
        if not isinstance(self.seeds, (int, tuple, list)):
            raise ArgumentError("seeds", "a list of whole numbers, or how many", quoted(self.seeds))
        if not isinstance(self.set, Mapping):
            raise ArgumentError("set", "a table of hyper-parameters", quoted(self.set))
        seeds = range(dimension("seeds", self.seeds, most=10**5)) if isinstance(self.seeds, int) else self.seeds
        for name, values in (
            ("tasks", [find_task(given).name for given in self.tasks]),
            ("methods", [method(given).name for given in self.methods]),
            ("seeds", [dimension("seeds", given, least=0) for given in seeds]),
        ):
            if not values or len(dict.fromkeys(values)) < len(values):
                raise ArgumentError(name, "at least one, each once", getattr(self, name))
            object.__setattr__(self, name, tuple(values))
        if isinstance(self.steps, Mapping):
            object.__setattr__(self, "steps", {find_task(given).name: count for given, count in self.steps.items()})

    @classmethod
    def read(cls, path: str | Path) -> dict[str, Any]:
        """The settings in a TOML file, whose keys are the arguments of a grid."""
        try:
            data = tomllib.loads(read_bytes(Path(path), MOST_JSON, follow=True).decode())
        except (ValueError, RecursionError) as error:
            raise StoreError(path, f"is not TOML ({error})") from None
        known = [entry.name for entry in fields(cls)]
        for name in data:
            if name not in known:
                raise UnknownNameError("setting of a grid", name, known)
        return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}

    def configs(self) -> list[RunConfig]:
        """Every run, seed by seed, so that all methods have their first seed early."""
        assert isinstance(self.seeds, tuple)
        return [
            self._config(name, method_name, seed)
            for seed in self.seeds
            for name in self.tasks
            for method_name in self.methods
        ]

    def _config(self, name: str, method_name: str, seed: int) -> RunConfig:
        steps = self.steps.get(name) if isinstance(self.steps, Mapping) else self.steps
        names = ("form", "evaluate_every", "evaluation_episodes", "final_episodes", "checkpoint_every")
        options = {key: getattr(self, key) for key in names}
        changes = {key: tuple(value) if isinstance(value, list) else value for key, value in self.set.items()}
        return make_config(
            find_task(name), method_name, steps=steps, preset=self.preset, overrides=changes, seed=seed, **options
        )


@dataclass(frozen=True)
class Job:
    """What one process does: `prepare` what the runs of a task share, or a `run`; `data` is ready for JSON."""

    kind: Literal["prepare", "run"]
    name: str
    folder: Path
    data: dict[str, Any]
    needs: str | None = None


def map_folder(shared: Path, chosen: Method) -> Path:
    """Where the map that a method needs is shared."""
    return shared / (chosen.map if chosen.fitted_to == "violation" else f"{chosen.map}-{chosen.fitted_to}").casefold()


def jobs_of(grid: Grid, out: Path, mirror: str | None = None) -> list[Job]:
    """Preparations first, each task's once, then the runs; all copied to a `mirror`, if there is one."""
    runs = [_run(config, out) for config in grid.configs()]
    first: dict[str, Job] = {}
    for config in grid.configs():
        chosen, limited = method_of(config), find_task(config.task).limits is not None
        if chosen.needs_map or limited:
            place = f"{SHARED}/{config.task}"
            data: dict[str, Any] = {"task": config.task, "form": config.form, "place": place, "methods": []}
            job = first.setdefault(config.task, Job("prepare", f"{config.task} shared", out / place, data))
            if chosen.needs_map and chosen.name not in job.data["methods"]:
                job.data["methods"].append(chosen.name)
    jobs = [*first.values(), *(_after(job, first) for job in runs)]
    for job in jobs:
        job.data.update(out=str(out), mirror=mirror)
    return jobs


def _run(config: RunConfig, out: Path) -> Job:
    place = f"{config.task}/{config.method}/{config.seed}"
    data = {"config": config.as_json(), "place": place, "shared": f"{SHARED}/{config.task}"}
    return Job("run", f"{config.task} {config.method} {config.seed}", out / place, data)


def _after(job: Job, first: Mapping[str, Job]) -> Job:
    needed = first.get(job.data["config"]["task"])
    return job if needed is None else Job(job.kind, job.name, job.folder, job.data, needed.name)
