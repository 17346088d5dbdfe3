"""Which ray map do agents learn best through? PPO on four robots, one option changed at a time.

The usual options are those of `ray` (softness 0.5, a smooth profile, erf, the action box as the base).
"""

from __future__ import annotations

from benchmarks.harness import main
from benchmarks.through_maps import Comparison

OPTIONS = {
    "usual": "ray",
    "softness 0.2": "ray:softness=0.2",
    "softness 0.8": "ray:softness=0.8",
    "linear profile": "ray:profile=linear",
    "tanh": "ray:squash=tanh",
    "base 1.5 times as wide": "ray:width=1.5",
}
COMPARISON = Comparison(
    name="ray_options",
    steps={"W+M": 700_000, "W+O+S": 700_000, "HC+O": 700_000, "H+M": 700_000},
    seeds=2,
    ways={way: ("PPO+CVFlow", kind) for way, kind in OPTIONS.items()},
    quick="tanh",
)


if __name__ == "__main__":
    main("ray_options", COMPARISON.run, COMPARISON.table, parts="runs")
