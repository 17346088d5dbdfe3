"""Which ray map do agents learn best through? PPO on four robots, one option changed at a time.

A part is one run, kept in the journal. The usual options are those of `ray` (softness 0.5, a smooth profile, erf, the
action box as the base).
"""

from __future__ import annotations

from typing import Any

from benchmarks import through_maps
from benchmarks.harness import main
from benchmarks.journal import Job, Journal, run_parts

STEPS = {"H+M": 1_000_000, "W+M": 1_000_000, "W+O+S": 1_000_000, "HC+O": 1_000_000}
SEEDS = 2
WAYS = {
    "usual": "ray",
    "softness 0.2": "ray:softness=0.2",
    "softness 0.8": "ray:softness=0.8",
    "linear profile": "ray:profile=linear",
    "tanh": "ray:squash=tanh",
    "base 1.5 times as wide": "ray:width=1.5",
}
"""A name for every kind, with its options."""


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Returns through every map, on every robot."""
    tasks = {"H+M": 8192} if quick else STEPS
    ways = ("tanh",) if quick else tuple(WAYS)
    jobs: list[Job] = [
        (name, "PPO+CVFlow", WAYS[way], steps, seed)
        for seed in range(1 if quick else SEEDS)
        for way in ways
        for name, steps in tasks.items()
    ]
    rows = run_parts(through_maps.train, jobs, "training", journal, config=through_maps.settings_of)
    names = {kind: way for way, kind in WAYS.items()}
    runs = [
        {**row["figures"], "task": name, "way": names[kind], "steps": steps, "seed": seed}
        for (name, _, kind, steps, seed), row in zip(jobs, rows, strict=True)
    ]
    return {"runs": runs, "bars": []}


def table(report: dict[str, Any]) -> str:
    """Means and every seed."""
    return through_maps.table(report, WAYS)


if __name__ == "__main__":
    main("ray_options", run, table, parts="runs")
