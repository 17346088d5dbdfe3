"""Is a uniform map enough? PPO through maps that are uniform, and through one that leaves allowed actions alone.

The same agent on two robots through: slices made uniform by splines, the gauge map, the ray map, the projection of a
clipped action, and without any constraint.
"""

from __future__ import annotations

from typing import Any

from benchmarks.harness import ROOT, main
from benchmarks.journal import Journal
from benchmarks.learning_figures import draw_curves
from benchmarks.through_maps import Comparison

COMPARISON = Comparison(
    name="uniform",
    steps={"W+M": 700_000, "HC+O": 700_000},
    seeds=3,
    ways={
        "slice, uniform": ("PPO+CVFlow", "slice", False),
        "slice, uniform, mirrored": ("PPO+CVFlow", "slice:mirrored=true", False),
        "gauge, uniform": ("PPO+CVFlow", "gauge", False),
        "ray": ("PPO+CVFlow", "ray", False),
        "projection": ("PPO", None, False),
        "no constraint": ("PPO", None, True),
    },
    quick="ray",
)


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Returns of every way, on both robots, and their curves."""
    report = COMPARISON.run(quick, journal)
    if journal.path is not None:
        series = {way: lambda run, way=way: run["way"] == way for way in COMPARISON.ways}
        draw_curves(report["runs"], series, ROOT / "docs" / "images" / "uniform.png", columns=2)
    return report


if __name__ == "__main__":
    main("uniform", run, COMPARISON.table, parts="runs")
