"""Does an agent learn better through a learned map that is calm? PPO through CV-Flows fitted with β·‖f(z,x) - box(z)‖².

Learned maps are mirrored with their sets; the ray map stands beside them. A part is one run with the fit of its map,
kept in the journal; what the fits cost in accuracy and uniformity is in results/calm.json.
"""

from __future__ import annotations

from typing import Any

from benchmarks import through_maps
from benchmarks.harness import main
from benchmarks.journal import Job, Journal, run_parts

TASK, STEPS, SEEDS = "W+M", 700_000, 3
LEARNED = "boxspline:mirrored=true"
WAYS: dict[str, tuple[str, float]] = {
    "ray": ("ray", 0.0),
    "learned, β = 0": (LEARNED, 0.0),
    "learned, β = 0.1": (LEARNED, 0.1),
    "learned, β = 1": (LEARNED, 1.0),
    "learned, β = 10": (LEARNED, 10.0),
}
"""Kind of map and β."""


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Returns through every map."""
    steps, seeds = (4096, 1) if quick else (STEPS, SEEDS)
    ways = ("ray",) if quick else tuple(WAYS)
    named = [way for _ in range(seeds) for way in ways]
    jobs: list[Job] = [
        (TASK, "PPO+CVFlow", WAYS[way][0], steps, seed, False, WAYS[way][1]) for seed in range(seeds) for way in ways
    ]
    rows = run_parts(through_maps.train, jobs, "training", journal, config=through_maps.settings_of)
    runs = [
        {**row["figures"], "task": TASK, "way": way, "steps": steps, "seed": job[4]}
        for job, way, row in zip(jobs, named, rows, strict=True)
    ]
    return {"runs": runs, "bars": []}


def table(report: dict[str, Any]) -> str:
    """Means and every seed."""
    return through_maps.table(report, WAYS)


if __name__ == "__main__":
    main("transported", run, table, parts="runs")
