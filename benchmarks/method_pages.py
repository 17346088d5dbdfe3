"""What results/ has about each method, written onto its page of docs/methods.

python -m benchmarks.method_pages
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import RESULTS
from benchmarks.reproduction import collected

PAGES = Path(__file__).resolve().parent.parent / "docs" / "methods"
START, END = "<!-- measured: python -m benchmarks.method_pages -->", "<!-- measured, end -->"
NOTHING = "No long training of these methods is among the results yet."
LONG = """\
Final policies, of 50 to 500 episodes; CV % is the share of training steps at which a forbidden action was asked for,
before any projection, left % of episodes of training that left the safe states (`make learning`, `make robots`,
`make reproduction`, two shared cores). [All methods](../reproduction.md)."""
MATRIX = """\
On the paper's twelve tasks, in 2,000 steps with 32×32 networks, which say how a method starts and not how well it ends
(`make matrix`): the share of actions asked for that were forbidden. Speed is training steps per second relative to
plain SAC's, where it was measured (`python -m benchmarks.method_speed`, 256×256 networks, one thread); a fifth is
noise."""


def methods_of_pages() -> dict[Path, tuple[str, ...]]:
    """Every page with the methods that it describes, from the table of methods/README.md."""
    rows = re.findall(r"^\| \[[^]]*\]\((\S+?\.md)\) \| (.*?) \|$", (PAGES / "README.md").read_text(), re.MULTILINE)
    return {PAGES / page: tuple(names.split(", ")) for page, names in rows if "/" not in page}


def section(methods: Sequence[str], folder: Path = RESULTS) -> str:
    """The figures of some methods, as Markdown."""
    runs = [run for run in collected(folder) if run["method"] in methods]
    matrix = _rows(folder / "matrix.csv", methods)
    parts = [START, "## Measured", *([LONG, _long(runs)] if runs else [NOTHING])]
    if matrix:
        parts += [MATRIX, _few_steps(matrix, methods, json.loads((folder / "method_speed.json").read_text()))]
    return "\n\n".join([*parts, END])


def _long(runs: Sequence[dict[str, Any]]) -> str:
    """Per task, method and budget: mean and worst return, violations of training."""
    table = ["| task | method | steps | seeds | return | worst seed | CV % | left % |", "|---" * 8 + "|"]
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["task"], run["method"], run["steps"]), []).append(run)
    for (task, method, steps), some in groups.items():
        returns = [run["final"]["return"] for run in some]
        digits = 0 if max(map(abs, returns)) >= 100 else 1
        shares = [np.mean([run["training"][name] for run in some]) for name in ("cv_percent", "left_percent")]
        cells = [task, method, f"{steps:,}", str(len(some)), f"{np.mean(returns):,.{digits}f}"]
        cells += [f"{min(returns):,.{digits}f}", *(f"{share:.2f}" for share in shares)]
        table.append(f"| {' | '.join(cells)} |")
    return "\n".join(table)


def _rows(path: Path, methods: Sequence[str]) -> list[dict[str, str]]:
    with path.open() as file:
        return [row for row in csv.DictReader(file) if row["method"] in methods]


def _few_steps(rows: Sequence[dict[str, str]], methods: Sequence[str], speed: dict[str, dict[str, float]]) -> str:
    """Per method: on how many tasks nothing was forbidden, median and worst share of the tasks, speed."""
    fast = speed["steps_per_second"]
    tasks = list(dict.fromkeys(task for task, method in (key.split(" ") for key in fast) if method in methods))
    head = ["method", "tasks without any", "median %", "worst %", *(f"speed, {task}" for task in tasks)]
    table = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for method in methods:
        shares = [float(row["cv_percent"]) for row in rows if row["method"] == method]
        if not shares:
            continue
        cells = [method, f"{sum(share == 0 for share in shares)} of {len(shares)}"]
        cells += [f"{np.median(shares):.1f}", f"{max(shares):.1f}"]
        cells += [
            f"{fast[key] / fast[f'{task} SAC']:.2f}" if (key := f"{task} {method}") in fast else "–" for task in tasks
        ]
        table.append(f"| {' | '.join(cells)} |")
    return "\n".join(table)


def write() -> None:
    """Replace the figures of every page, or append them where it has none."""
    for page, methods in methods_of_pages().items():
        text = page.read_text().split(START)[0].rstrip()
        page.write_text(f"{text}\n\n{section(methods)}\n")


if __name__ == "__main__":
    write()
