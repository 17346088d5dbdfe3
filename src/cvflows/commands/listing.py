"""Lists of tasks, methods and settings, and pictures of the sets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from cvflows.commands.output import print_json
from cvflows.errors import dimension
from cvflows.figures import MethodRow, SettingRow, TaskRow


def tasks(json: bool = False) -> None:
    """List the benchmark tasks.

    Args:
        json: Print one JSON object instead of a table.
    """
    from cvflows.tasks.catalogue import TASKS
    from cvflows.tasks.registration import gymnasium_id

    rows: list[TaskRow] = [
        {
            "task": task.name,
            "environment": task.environment,
            "gymnasium_id": gymnasium_id(task.name),
            "constraint": task.description,
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
        return print_json({"tasks": rows})
    from cvflows.printing import print_tasks

    print_tasks(rows)
    return None


def methods(json: bool = False) -> None:
    """List the methods.

    Args:
        json: Print one JSON object instead of a table.
    """
    from cvflows.agents.methods import METHODS

    rows: list[MethodRow] = [
        {
            "method": method.name,
            "algorithm": method.algorithm.__name__,
            "decoder": method.decoder.__name__,
            "description": method.description,
            "settings": dict(method.settings),
            "map": method.map if method.needs_map else None,
        }
        for method in METHODS.values()
    ]
    if json:
        return print_json({"methods": rows})
    from cvflows.printing import print_methods

    print_methods(rows)
    return None


def settings(
    method: Annotated[str, Positional, arg(metavar="METHOD")],
    task: str | None = None,
    preset: Literal["tuned", "paper"] = "tuned",
    json: bool = False,
) -> None:
    """List the settings of a method, as `--set` takes them, with their values on a task.

    Args:
        method: Name of the method, as `cvflows methods` lists it.
        task: Name of the task whose values are shown; without it, the defaults.
        preset: Settings measured to work here, or the paper's.
        json: Print one JSON object instead of a table.
    """
    from cvflows.agents.methods import method as find_method
    from cvflows.agents.settings import as_text
    from cvflows.tasks.catalogue import task as find_task

    found, place = find_method(method), None if task is None else find_task(task)
    names = ("", "") if place is None else (place.name, place.family)
    chosen = found.configure({}, preset, *names)
    rows: list[SettingRow] = [
        {
            "name": one.name,
            "value": as_text(getattr(chosen, one.name)),
            "default": as_text(one.default),
            "allowed": one.allowed,
            "description": one.description,
        }
        for one in chosen.described()
    ]
    if json:
        return print_json({"method": found.name, "task": task, "preset": preset, "settings": rows})
    from cvflows.printing import print_settings

    print_settings(found.name, rows)
    return None


def draw(
    task: Annotated[str, Positional, arg(metavar="TASK")],
    out: Path = Path("pictures"),
    seed: int = 0,
    json: bool = False,
) -> None:
    """Draw the allowed actions of a task and where forbidden ones are projected.

    Args:
        task: Name of the task, as `cvflows tasks` lists it.
        out: Folder for the picture.
        seed: Seed of the contexts and actions drawn.
        json: Print one JSON object instead of a line.
    """
    from cvflows.tasks.catalogue import task as find_task

    found = find_task(task)
    dimension("seed", seed, least=0, most=2**32 - 1)
    from cvflows.reports.figures import draw_task

    drawn = draw_task(found, out / f"{found.name}.png", seed=seed)
    if json:
        return print_json(drawn)
    print(f"{drawn['picture']}: {drawn['panels']} panel(s) of {found.name}, {drawn['projected']} actions projected")
    if "missing" in drawn:
        print(f"cvflows: {drawn['missing']}", file=sys.stderr)
    return None
