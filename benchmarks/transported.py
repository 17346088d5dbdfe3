"""Does an agent learn better through a learned map that is calm? PPO through CV-Flows fitted with β·‖f(z,x) - box(z)‖².

Learned maps are mirrored with their sets; the ray map stands beside them. What the fits cost in accuracy and uniformity
is in results/calm.json.
"""

from __future__ import annotations

from benchmarks.harness import main
from benchmarks.through_maps import Comparison

LEARNED = ("PPO+CVFlow", "boxspline:mirrored=true", False)
COMPARISON = Comparison(
    name="transported",
    steps={"W+M": 700_000},
    seeds=2,
    ways={
        "ray": ("PPO+CVFlow", "ray", False, 0.0),
        "learned, β = 0": (*LEARNED, 0.0),
        "learned, β = 1": (*LEARNED, 1.0),
        "learned, β = 10": (*LEARNED, 10.0),
    },
    quick="ray",
)


if __name__ == "__main__":
    main("transported", COMPARISON.run, COMPARISON.table, parts="runs")
