"""The command line: arguments to calls, nothing else. JAX loads only in the commands that compute."""

from __future__ import annotations

import json as json_module
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import tyro

from cvflows.errors import CVFlowsError


def tasks(json: bool = False) -> None:
    """List the benchmark tasks.

    Args:
        json: Print one JSON object instead of a table.
    """
    from cvflows.tasks.catalogue import TASKS
    from cvflows.tasks.registration import gymnasium_id

    rows = [
        {
            "task": task.name,
            "environment": task.environment,
            "gymnasium_id": gymnasium_id(task.name),
            "constraint": task.words,
            "formula": task.formula,
            "on": "actions" if task.limits is None else "states",
            "action_dim": task.action_dim,
            "convex": task.convex,
            "star_shaped": task.star_shaped,
            "contexts": "states of a random policy" if task.distribution is None else str(task.distribution),
            "feasible_share": task.share,
            "violations": task.metric,
            "in_paper": task.in_paper,
        }
        for task in TASKS.values()
    ]
    if json:
        return _print_json({"tasks": rows})
    from cvflows.terminal import print_tasks

    print_tasks(rows)
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
    print(f"{drawn['picture']}: {drawn['panels']} panel(s) of {found.name}, {drawn['projected']} actions projected")
    if "missing" in drawn:
        print(f"cvflows: {drawn['missing']}", file=sys.stderr)
    return None


def fit(
    task: tyro.conf.Positional[str],
    map: str = "auto",
    seed: int = 0,
    steps: int = 3000,
    form: Literal["paper", "drift", "stopping"] = "stopping",
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Fit a map from latents to the allowed actions of a task, and save it with a picture.

    Where a task limits states, random episodes are collected and the constraint on actions is learned first.

    Args:
        task: Name of the task, as `cvflows tasks` lists it.
        map: boxspline, coupling or realnvp (learned from the violation); slice, gauge or shell (certified); or auto,
            which takes a certified one where the set allows it.
        seed: Seed of the fit.
        steps: Gradient steps.
        form: Of a learned constraint: the paper's, with drift, or with stopping distance.
        out: Folder for the map, by default maps/TASK.
        json: Print one JSON object instead of a table.
    """
    from cvflows.tasks.catalogue import task as find_task

    found = find_task(task)
    from cvflows.maps.fit import FitConfig
    from cvflows.reports.map_figure import draw_map
    from cvflows.runs.fitting import fit_task, save_report
    from cvflows.terminal import collect_progress, fit_progress

    folder, signal = out or Path("maps") / found.name, {}
    if found.limits is not None:
        with collect_progress(f"collecting transitions of {found.name}") as tick:
            learned = found.learn(form, seed=seed, tick=tick)
        found, signal = learned.task, {"signal": learned.as_json()}
    config = FitConfig(steps=steps, seed=seed, check_every=max(1, min(250, steps // 4)))
    with fit_progress(f"fitting {found.name}", steps) as progress:
        report = fit_task(found, map, config, progress=progress)
    save_report(report, folder)
    picture = draw_map(report.fitted.map, found, report.fitted.checks, folder / "map.png", seed=seed)
    figures = {**report.as_json(), **signal, "out": str(folder), "picture": str(picture)}
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
