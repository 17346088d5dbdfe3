"""Tables of results/ on the pages of the documentation: bars that were missed, robots, the paper's tables.

    python -m benchmarks.result_pages

Each stands between two comments, `measured: NAME` and `measured, end`; run it when rows were added.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import claims, off_policy_options, ray_options, reproduction, robots, transported, uniform
from benchmarks.bars import missed
from benchmarks.harness import RESULTS, ROOT
from benchmarks.through_maps import Comparison

PAGES = ("README.md", "docs/maps.md", "docs/results.md", "docs/reproduction.md")
PLACE = re.compile(r"(<!-- measured: (\w+) -->).*?(<!-- measured, end -->)", re.DOTALL)


def _robots(folder: Path) -> str:
    return robots.table({"runs": robots.recorded(folder)})


def _robots_in_brief(folder: Path) -> str:
    """Three lines: returns beside the paper's best, violations in training, minutes."""
    runs, rows = robots.recorded(folder), []
    for name in dict.fromkeys(run["task"] for run in runs):
        some = [run for run in runs if run["task"] == name]
        mean, best = float(np.mean([run["final"]["return"] for run in some])), robots.paper_best(name)
        digits = 1 if best < 100 else 0
        cv = max(run["training"]["cv_percent"] for run in some)
        minutes = float(np.mean([robots.minutes(run) for run in some]))
        rows.append((name, f"{mean:,.{digits}f} / {best:,.{digits}f}", f"{cv:g}", f"{minutes:.0f}"))
    titles = ("PPO+CVFlow, ours / the paper's best", "return", "violations in training, %", "minutes on one core")
    lines = [f"| {' | '.join(cells)} |" for cells in zip(titles, *rows, strict=True)]
    return "\n".join([lines[0], "|---" * (len(rows) + 1) + "|", *lines[1:]])


def _reproduction(folder: Path) -> str:
    return reproduction.table({"runs": reproduction.collected(folder)})


def _compared(comparison: Comparison) -> Callable[[Path], str]:
    return lambda folder: comparison.table({"runs": comparison.recorded(folder)})


COMPARISONS = [module.COMPARISON for module in (uniform, transported, ray_options, off_policy_options)]
TABLES: dict[str, Callable[[Path], str]] = {
    **{comparison.name: _compared(comparison) for comparison in COMPARISONS},
    "bars": missed,
    "claims": lambda folder: claims.table(reproduction.collected(folder)),
    "robots": _robots,
    "robots_in_brief": _robots_in_brief,
    "reproduction": _reproduction,
}


def filled(text: str, folder: Path = RESULTS) -> str:
    """A page with the tables that its comments name."""
    return PLACE.sub(lambda match: f"{match[1]}\n\n{TABLES[match[2]](folder)}\n\n{match[3]}", text)


def write() -> None:
    """Fill every page."""
    for name in PAGES:
        page = ROOT / name
        page.write_text(filled(page.read_text()))


if __name__ == "__main__":
    write()
