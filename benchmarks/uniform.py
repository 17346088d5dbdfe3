"""Is a uniform map enough? PPO through maps that are uniform, and through one that leaves allowed actions alone.

The same agent on two robots through: slices made uniform by splines, the gauge map, the ray map, the projection of a
clipped action, and without any constraint. A part is one run, kept in the journal.
"""

from __future__ import annotations

from typing import Any

from benchmarks import through_maps
from benchmarks.harness import ROOT, main
from benchmarks.journal import Job, Journal, run_parts
from benchmarks.learning_figures import draw_curves

STEPS = {"W+M": 700_000, "HC+O": 700_000}
SEEDS = 3
WAYS: dict[str, tuple[str, str | None]] = {
    "slice, uniform": ("PPO+CVFlow", "slice"),
    "slice, uniform, mirrored": ("PPO+CVFlow", "slice:mirrored=true"),
    "gauge, uniform": ("PPO+CVFlow", "gauge"),
    "ray": ("PPO+CVFlow", "ray"),
    "projection": ("PPO", None),
    "no constraint": ("PPO", None),
}
"""What stands between the agent and its robot: a method, and the kind of its map."""


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Returns of every way, on both robots."""
    tasks = {"W+M": 8192} if quick else STEPS
    ways = ("ray",) if quick else tuple(WAYS)
    jobs: list[Job] = [
        (name, *WAYS[way], steps, seed, way == "no constraint")
        for seed in range(1 if quick else SEEDS)
        for name, steps in tasks.items()
        for way in ways
    ]
    named = [way for _ in range(1 if quick else SEEDS) for _ in tasks for way in ways]
    rows = run_parts(through_maps.train, jobs, "training", journal, config=through_maps.settings_of)
    runs = [
        {**row["figures"], "task": name, "way": way, "steps": steps, "seed": seed}
        for (name, _, _, steps, seed, _), way, row in zip(jobs, named, rows, strict=True)
    ]
    if journal.path is not None:
        series = {way: lambda run, way=way: run["way"] == way for way in WAYS}
        draw_curves(runs, series, ROOT / "docs" / "images" / "uniform.png", columns=2)
    return {"runs": runs, "bars": []}


def table(report: dict[str, Any]) -> str:
    """Means and every seed."""
    return through_maps.table(report, WAYS)


if __name__ == "__main__":
    main("uniform", run, table, parts="runs")
