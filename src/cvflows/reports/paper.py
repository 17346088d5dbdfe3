"""The paper's figures, for comparison."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from cvflows.figures import PaperFigures


class Reported(NamedTuple):
    """Mean and standard deviation over ten seeds, at the paper's budget."""

    mean: float
    spread: float


TABLES = {
    "return": ("final_return.csv", "mean", "std"),
    "training": ("violations_training.csv", "mean_percent", "std_percent"),
    "final": ("violations_final_policy.csv", "mean_percent", "std_percent"),
}


@cache
def reported(table: str) -> dict[tuple[str, str], Reported]:
    """`return`, or violations in percent in `training` or of the `final` policy, by task and method."""
    name, mean, spread = TABLES[table]
    text = files("cvflows.reports").joinpath("paper", name).read_text()
    return {
        (row["task"], row["method"]): Reported(float(row[mean]), float(row[spread]))
        for row in csv.DictReader(text.splitlines())
    }


def best_reported(task: str) -> PaperFigures | None:
    """The highest return that the paper reports on a task, None where it reports none."""
    known = [(found.mean, method, found.spread) for (name, method), found in reported("return").items() if name == task]
    if not known:
        return None
    mean, method, spread = max(known)
    return {"method": method, "mean": mean, "spread": spread}
