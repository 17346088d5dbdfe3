"""Tables of results/ on the pages of the documentation: bars that were missed, robots, the paper's tables.

    python -m benchmarks.result_pages

Each stands between two comments, `measured: NAME` and `measured, end`; run it when rows were added.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from benchmarks import reproduction, robots
from benchmarks.bars import missed
from benchmarks.harness import RESULTS, ROOT
from benchmarks.journal import read_rows

PAGES = ("docs/results.md", "docs/reproduction.md")
PLACE = re.compile(r"(<!-- measured: (\w+) -->).*?(<!-- measured, end -->)", re.DOTALL)


def _robots(folder: Path) -> str:
    return robots.table({"runs": [row["figures"] for row in read_rows(folder / "robots.jsonl")[0]]})


def _reproduction(folder: Path) -> str:
    return reproduction.table({"runs": reproduction.collected(folder)})


TABLES: dict[str, Callable[[Path], str]] = {"bars": missed, "robots": _robots, "reproduction": _reproduction}


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
