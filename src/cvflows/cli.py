"""The command line: arguments to calls, nothing else. JAX loads only in the commands that compute."""

from __future__ import annotations

import json as json_module
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tyro

from cvflows.errors import CVFlowsError


def tasks(json: bool = False) -> None:
    """List the benchmark tasks.

    Args:
        json: Print one JSON object instead of a table.
    """
    from cvflows.tasks.catalogue import TASKS

    rows = [
        {
            "task": task.name,
            "environment": task.environment,
            "constraint": task.words,
            "formula": task.formula,
            "action_dim": task.action_dim,
            "convex": task.convex,
            "contexts": str(task.contexts),
            "in_paper": task.in_paper,
        }
        for task in TASKS.values()
    ]
    if json:
        return _print_json({"tasks": rows})
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", padding=(0, 1))
    for heading in ("task", "environment", "allowed actions", "formula", "d", "convex", "contexts p_S"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        name = f"[bold]{row['task']}[/bold]" + (" *" if row["in_paper"] else "")
        convex = "yes" if row["convex"] else "no"
        columns = (row["environment"], row["constraint"], row["formula"], row["action_dim"], convex, row["contexts"])
        table.add_row(name, *map(str, columns))
    console = Console()
    console.print(table)
    console.print("\n* in the paper's benchmark; every set also keeps the action box |aᵢ| ≤ 1", style="dim")
    return None


def draw(task: tyro.conf.Positional[str], out: Path = Path("pictures"), seed: int = 0, json: bool = False) -> None:
    """Draw the allowed actions of a task and where forbidden ones are projected.

    Args:
        task: Name of the task, as `cvflows tasks` lists it.
        out: Folder for the picture.
        seed: Seed of the contexts and actions drawn.
        json: Print one JSON object instead of a line.
    """
    from cvflows.tasks.catalogue import task as find_task

    found = find_task(task)
    from cvflows.reports.figures import draw_task

    drawn = draw_task(found, out / f"{found.name}.png", seed=seed)
    if json:
        return _print_json(drawn)
    print(f"{drawn['picture']}: {drawn['panels']} slice(s) of {found.name}, {drawn['projected']} actions projected")
    return None


def fit(
    task: tyro.conf.Positional[str],
    map: str = "auto",
    seed: int = 0,
    steps: int = 3000,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Fit a map from latents to the allowed actions of a task, and save it with a picture.

    Args:
        task: Name of the task, as `cvflows tasks` lists it.
        map: boxspline, coupling or realnvp (learned from the violation); slice, gauge or shell (certified); or auto,
            which takes a certified one where the set allows it.
        seed: Seed of the fit.
        steps: Gradient steps.
        out: Folder for the map, by default maps/TASK.
        json: Print one JSON object instead of a table.
    """
    from cvflows.tasks.catalogue import task as find_task

    found = find_task(task)
    from cvflows.maps.fit import FitConfig
    from cvflows.reports.map_figure import draw_map
    from cvflows.runs.fitting import fit_task, save_report
    from cvflows.terminal import fit_progress

    folder = out or Path("maps") / found.name
    config = FitConfig(steps=steps, seed=seed, check_every=max(1, min(250, steps // 4)))
    with fit_progress(f"fitting {found.name}", steps) as progress:
        report = fit_task(found, map, config, progress=progress)
    save_report(report, folder)
    picture = draw_map(report.fitted.map, found, report.fitted.checks, folder / "map.png", seed=seed)
    figures = {**report.as_json(), "out": str(folder), "picture": str(picture)}
    if json:
        return _print_json(figures)
    from cvflows.terminal import print_fit

    print_fit(figures)
    return None


def _print_json(value: Any) -> None:
    print(json_module.dumps(value, ensure_ascii=False, indent=2))


COMMANDS: dict[str, Callable[..., Any]] = {"tasks": tasks, "draw": draw, "fit": fit}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; a known error is one line on stderr and exit code 2."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cvflows"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))  # a second run does not compile again
    try:
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="cvflows", description="Agents whose actions stay allowed.", args=arguments
        )
    except CVFlowsError as error:
        print(f"cvflows: {error}", file=sys.stderr)
        return 2
    return 0
