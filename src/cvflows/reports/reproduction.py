"""The paper's tables and figures: which runs each is made from, and ours beside theirs.

A budget is a file of grids in `paper/`: `quick` shows how a table is made, `full` is what docs/reproduction.md holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import NamedTuple, TypedDict

from cvflows.agents.methods import method as find_method
from cvflows.errors import ArgumentError, look_up
from cvflows.maps.fit import FitConfig, Progress
from cvflows.maps.store import read_map_record
from cvflows.reports.records import Loaded, load_runs
from cvflows.reports.tables import TableCell, Tables
from cvflows.runs.fitting import fit_map, save_report
from cvflows.runs.grid import Grid, read_grids
from cvflows.runs.progress import find_runs
from cvflows.tasks.catalogue import task as find_task

BUDGETS = ("quick", "full")
FLOW_STEPS = {"quick": 300, "full": 3000}
WAYS = ("violation", "samples")
"""What a flow is fitted to."""
MUJOCO = ("R+L2", "R+D", "H+M", "H+O+S", "H+D", "W+M", "W+O+S", "HC+O")
WORLDS = ("Ball1D", "Ball3D", "Space-Corridor", "Space-Arena")
COMPARED = ("SAC+CVFlow", "DDPG+CVFlow", "PPO+CVFlow", "DPre+", "SPre+", "NFW", "FlowPG", "PPO+Projection")
"""The paper's methods, and PPO's."""
ALL = "all"


@dataclass(frozen=True)
class PaperTable:
    """A table or figure of the paper: what it shows of which methods on which tasks.

    `figures`: of a report's tables; none where maps are fitted and nothing is trained.
    """

    title: str
    figures: tuple[str, ...]
    methods: tuple[str, ...] = COMPARED
    tasks: tuple[str, ...] = (*MUJOCO, *WORLDS)


FLOWS = PaperTable("accuracy, recall and F1 of a flow from violations, and from feasible samples", (), (), MUJOCO)
PAPER: dict[str, PaperTable] = {
    "returns": PaperTable("returns of the final policy", ("return",)),
    "training": PaperTable("violations during training, in percent", ("training",)),
    "final": PaperTable("violations of the final policy, in percent", ("final",)),
    "magnitude": PaperTable("mean magnitude of violations", ("magnitude",)),
    "speed": PaperTable("steps per second", ("speed",), tasks=MUJOCO),
    "rules": PaperTable(
        "CV-Flow with DDPG and with SAC: returns, violations during training",
        ("return", "training"),
        ("SAC+CVFlow", "DDPG+CVFlow"),
    ),
    "entropy": PaperTable(
        "SAC+CVFlow with and without ‖â‖² in the entropy: returns, violations during training",
        ("return", "training"),
        ("SAC+CVFlow", "SAC+CVFlow-plain"),
        ("H+M", "W+M", "HC+O", "R+D"),
    ),
    "flows": FLOWS,
}
"""By the name that `cvflows reproduce` takes."""


class FlowRow(TypedDict):
    """A flow fitted to one task in one of the two ways."""

    task: str
    fitted_to: str
    accuracy: float
    recall: float
    f1: float
    gradient_steps: int
    seconds: float


class Choice(NamedTuple):
    """Tables with a budget, restricted to some tasks and methods."""

    tables: tuple[str, ...]
    budget: str
    tasks: tuple[str, ...] | None
    methods: tuple[str, ...] | None

    @classmethod
    def of(
        cls, table: str, budget: str, tasks: Sequence[str] | None = None, methods: Sequence[str] | None = None
    ) -> Choice:
        """`table` is a name of `PAPER`, or `all`; what it does not have is refused."""
        tables = look_up("table", table, {**{name: (name,) for name in PAPER}, ALL: tuple(PAPER)})
        known = look_up("budget", budget, {name: name for name in BUDGETS})
        chosen = None if tasks is None else tuple(find_task(name).name for name in tasks)
        for name in chosen or ():
            if not any(name in PAPER[one].tasks for one in tables):
                raise ArgumentError("task", f"one of the {table} table", name)
        of_methods = None if methods is None else tuple(find_method(name).name for name in methods)
        return cls(tables, known, chosen, of_methods)

    def grids(self) -> list[Grid]:
        """The runs that these tables need; none where they only need maps."""
        trained = [PAPER[name] for name in self.tables if PAPER[name].figures]
        if not trained:
            return []
        wanted = {(task, method) for table in trained for task in table.tasks for method in table.methods}
        with as_file(files("cvflows.reports").joinpath("paper", f"{self.budget}.toml")) as path:
            grids = read_grids(path, tasks=self.tasks, methods=self.methods)
        return [
            grid
            for whole in grids
            for method in whole.methods
            if (grid := whole.restricted([one for one in whole.tasks if (one, method) in wanted], [method], None))
        ]

    def flow_tasks(self) -> tuple[str, ...]:
        """The tasks whose flows are compared."""
        if "flows" not in self.tables:
            return ()
        return tuple(name for name in FLOWS.tasks if self.tasks is None or name in self.tasks)


def cells_of(choice: Choice, out: Path) -> dict[str, list[TableCell]]:
    """What complete runs below `out` say, by `table: figure`."""
    runs = load_runs([out]) if out.is_dir() and find_runs([out]) else Loaded([], [])
    tables = Tables(runs)
    found: dict[str, list[TableCell]] = {}
    for name in choice.tables:
        for figure in PAPER[name].figures:
            found[f"{name}: {figure}" if len(PAPER[name].figures) > 1 else name] = [
                cell
                for cell in tables.cells(figure)
                if cell["task"] in (choice.tasks or PAPER[name].tasks)
                and cell["method"] in (choice.methods or PAPER[name].methods)
            ]
    return found


def fit_flow(
    name: str, way: str, budget: str, out: Path, *, train: bool = True, progress: Progress | None = None
) -> FlowRow | None:
    """The paper's flow, RealNVP with a uniform base, fitted to a task from its `violation` or from feasible `samples`.

    It is kept in `out`/flows; None where it is not there, and nothing is to be fitted.
    """
    folder = out / "flows" / name / way
    if not (folder / "map.json").exists():
        if not train:
            return None
        config = FitConfig(steps=FLOW_STEPS[budget], batch=256, learning_rate=1e-3)
        if way == "samples":
            config = replace(config, gradient_clip=0.1)  # the likelihood of a sample near the edge has steep slopes
        options = {"base": "uniform", "width": 128}
        save_report(
            fit_map(find_task(name), "realnvp", config, fitted_to=way, progress=progress, **options),
            folder,
        )
    return _flow_row(name, way, read_map_record(folder)["about"])


def _flow_row(task: str, way: str, about: dict[str, object]) -> FlowRow:
    accuracy, recall, f1, seconds = (float(str(about[name])) for name in ("accuracy", "recall", "f1", "seconds"))
    steps = int(str(about["gradient_steps"]))
    return FlowRow(
        task=task, fitted_to=way, accuracy=accuracy, recall=recall, f1=f1, gradient_steps=steps, seconds=seconds
    )
