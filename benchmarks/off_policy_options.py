"""Which entropy does SAC learn best with through a ray map, and does DDPG's gradient need a smooth one?

SAC's log π is relative to the map's own density (the usual form, exact where the map is uniform), or has the map's
log-determinant. DDPG's critic sees actions, so that its gradient goes through the map: the usual profile has a
continuous slope, the linear one a kink.
"""

from __future__ import annotations

from benchmarks.harness import main
from benchmarks.through_maps import Comparison

COMPARISON = Comparison(
    name="off_policy_options",
    steps={"W+M": 100_000, "HC+O": 100_000},
    seeds=2,
    ways={
        "SAC, relative entropy": ("SAC+CVFlow", "ray"),
        "SAC, exact entropy": ("SAC+CVFlow", "ray", False, 0.0, "entropy=exact"),
        "DDPG, smooth profile": ("DDPG+CVFlow", "ray"),
        "DDPG, linear profile": ("DDPG+CVFlow", "ray:profile=linear"),
    },
    quick="SAC, exact entropy",
    quick_steps=600,
)


if __name__ == "__main__":
    main("off_policy_options", COMPARISON.run, COMPARISON.table, parts="runs")
