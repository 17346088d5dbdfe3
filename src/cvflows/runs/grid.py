"""Grids of runs: tasks × methods × seeds, and what the runs of a task share."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NotRequired, TypedDict

from cvflows.agents.methods import Method, method
from cvflows.errors import ArgumentError, StoreError, UnknownNameError, dimension, quoted
from cvflows.files import MOST_JSON, read_bytes
from cvflows.runs.config import RunConfig, make_config, method_of
from cvflows.tasks.catalogue import task as find_task

SHARED = "shared"
"""Folder of maps and learned constraints, next to those of the tasks."""


@dataclass(frozen=True)
class Grid:
    """Which runs there are.

    - `tasks`, `methods`: names, in any case; `seeds`: a list, or how many.
    - `steps`: of every run, or a table of them by task; by default those of the preset.
    - `set`: settings of the algorithms to override; the others are those of `RunConfig` and `make_config`.
    """

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...] | int = (0,)
    steps: int | Mapping[str, int] | None = None
    preset: str = "tuned"
    form: str = "stopping"
    evaluate_every: int | None = None
    evaluation_episodes: int = 5
    final_episodes: int = 100
    checkpoint_every: int | None = None
    set: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("tasks", "methods"):
            given = getattr(self, name)
            if not isinstance(given, (tuple, list)) or not all(isinstance(one, str) for one in given):
                raise ArgumentError(name, "a list of names", quoted(given))
        if not isinstance(self.seeds, (int, tuple, list)):
            raise ArgumentError("seeds", "a list of whole numbers, or how many", quoted(self.seeds))
        if not isinstance(self.set, Mapping):
            raise ArgumentError("set", "a table of settings", quoted(self.set))
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
    def from_settings(cls, settings: Mapping[str, object]) -> Grid:
        """A grid from its arguments by name, of any type: they are checked."""
        for name in ("tasks", "methods"):
            if not settings.get(name):
                raise ArgumentError(name, "at least one name, here or in a grid's file", "none")
        make: Callable[..., Grid] = cls
        return make(**settings)

    def configs(self) -> list[RunConfig]:
        """Every run, seed by seed, so that all methods have their first seed early."""
        return [config for some in self.by_seed() for config in some]

    def by_seed(self) -> list[list[RunConfig]]:
        """The runs of every seed."""
        assert isinstance(self.seeds, tuple)
        return [
            [self._config(name, method_name, seed) for name in self.tasks for method_name in self.methods]
            for seed in self.seeds
        ]

    def restricted(
        self, tasks: Sequence[str] | None, methods: Sequence[str] | None, seeds: Sequence[int] | None
    ) -> Grid | None:
        """Only these tasks, methods and seeds of the grid, None where nothing is left."""
        assert isinstance(self.seeds, tuple)
        names = [one for one in self.tasks if tasks is None or one in [find_task(name).name for name in tasks]]
        chosen = [one for one in self.methods if methods is None or one in [method(name).name for name in methods]]
        left = [one for one in self.seeds if seeds is None or one in seeds]
        if not (names and chosen and left):
            return None
        return replace(self, tasks=tuple(names), methods=tuple(chosen), seeds=tuple(left))

    def _config(self, name: str, method_name: str, seed: int) -> RunConfig:
        steps = self.steps.get(name) if isinstance(self.steps, Mapping) else self.steps
        changes = {key: tuple(value) if isinstance(value, list) else value for key, value in self.set.items()}
        return make_config(
            find_task(name),
            method_name,
            steps=steps,
            preset=self.preset,
            overrides=changes,
            seed=seed,
            form=self.form,
            evaluate_every=self.evaluate_every,
            evaluation_episodes=self.evaluation_episodes,
            final_episodes=self.final_episodes,
            checkpoint_every=self.checkpoint_every,
        )


def read_grids(
    path: Path | None,
    *,
    tasks: tuple[str, ...] | None = None,
    methods: tuple[str, ...] | None = None,
    seeds: tuple[int, ...] | int | None = None,
    steps: int | None = None,
) -> list[Grid]:
    """The grids of a TOML file, changed by what is given.

    Its keys are the arguments of a grid. With tables `[[grid]]`, each is one, and other keys are what they share;
    `tasks`, `methods` and `seeds` then choose from their runs. Without, they replace those of the file.
    """
    data = {} if path is None else _parsed(path)
    parts = data.pop("grid", None)
    wanted: dict[str, object] = {"tasks": tasks, "methods": methods, "seeds": seeds, "steps": steps}
    given = {name: value for name, value in wanted.items() if value is not None}
    if parts is None:
        return [Grid.from_settings(_known(data) | given)]
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        raise ArgumentError("grid", "tables, each headed [[grid]]", quoted(parts))
    changed = {"steps": steps} if steps is not None else {}
    grids = [Grid.from_settings({**_known(data), **_known(part), **changed}) for part in parts]
    some = range(dimension("seeds", seeds, most=10**5)) if isinstance(seeds, int) else seeds
    left = [grid for one in grids if (grid := one.restricted(tasks, methods, some)) is not None]
    if not left:
        raise ArgumentError("tasks, methods and seeds", f"a run of {path}", "none")
    return left


def _parsed(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(read_bytes(Path(path), MOST_JSON, follow=True).decode())
    except (ValueError, RecursionError) as error:
        raise StoreError(path, f"is not TOML ({error})") from None


def _known(data: Mapping[str, object]) -> dict[str, object]:
    """Settings of a grid; names that it does not have are refused."""
    known = [entry.name for entry in fields(Grid)]
    for name in data:
        if name not in known:
            raise UnknownNameError("setting of a grid", name, known)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}


def configs_of(grids: Sequence[Grid]) -> list[RunConfig]:
    """The first seed of every grid, then the second ones, and so on: useful at any moment. No run may be in two."""
    ranks = zip_longest(*(grid.by_seed() for grid in grids), fillvalue=())
    configs: list[RunConfig] = [config for rank in ranks for some in rank for config in some]
    names = Counter(f"{config.task} {config.method} {config.seed}" for config in configs)
    name, count = names.most_common(1)[0]
    if count > 1:
        raise ArgumentError("grid", "grids that have no run in common", name)
    return configs


class JobData(TypedDict):
    """What the process of a job is given, ready for JSON: `place` and `shared` are folders below `out`.

    A run has a `config` and a `shared` folder; a preparation has a task, a form and methods with their kinds of maps.
    """

    out: str
    mirror: str | None
    place: str
    config: NotRequired[dict[str, object]]
    shared: NotRequired[str]
    task: NotRequired[str]
    form: NotRequired[str]
    methods: NotRequired[list[tuple[str, str | None]]]


@dataclass(frozen=True)
class Job:
    """What one process does: `prepare` what the runs of a task share, or a `run`, whose `config` is given."""

    kind: Literal["prepare", "run"]
    name: str
    folder: Path
    data: JobData
    needs: str | None = None
    config: RunConfig | None = None


def map_folder(shared: Path, chosen: Method) -> Path:
    """Where the map that a method needs is shared."""
    name = chosen.map if chosen.fitted_to == "violation" else f"{chosen.map}-{chosen.fitted_to}"
    return shared / re.sub(r"[^\w.=-]+", "-", name).casefold()


def jobs_of(grids: Sequence[Grid], out: Path, mirror: str | None = None) -> list[Job]:
    """Preparations first, each task's once, then the runs; all copied to a `mirror`, if there is one."""
    configs = configs_of(grids)
    forms = sorted({grid.form for grid in grids})
    if len(forms) > 1:
        raise ArgumentError("form", "one for all grids of a file: they share what is learned", ", ".join(forms))
    needed: dict[str, list[tuple[str, str | None]]] = {}
    for config in configs:
        mapped, limited = method_of(config).needs_map, find_task(config.task).limits is not None
        if mapped or limited:
            kinds = needed.setdefault(config.task, [])
            if mapped and (config.method, config.map) not in kinds:
                kinds.append((config.method, config.map))
    jobs = []
    for task, methods in needed.items():
        place = f"{SHARED}/{task}"
        data = JobData(out=str(out), mirror=mirror, place=place, task=task, form=forms[0], methods=methods)
        jobs.append(Job("prepare", f"{task} shared", out / place, data))
    for config in configs:
        place = f"{config.task}/{config.method}/{config.seed}"
        data = JobData(
            out=str(out), mirror=mirror, place=place, config=config.as_json(), shared=f"{SHARED}/{config.task}"
        )
        needs = f"{config.task} shared" if config.task in needed else None
        name = f"{config.task} {config.method} {config.seed}"
        jobs.append(Job("run", name, out / place, data, needs, config))
    return jobs
