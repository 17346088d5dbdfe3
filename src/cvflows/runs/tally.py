"""What is counted in an episode, and figures of many episodes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from cvflows.constraints.guard import Verdict
from cvflows.constraints.outcome import Outcome
from cvflows.envs.worlds import LEFT, Info


class Asked(NamedTuple):
    """Whether the action that a policy asked for is forbidden, also at the looser tolerances of two papers."""

    forbidden: bool
    violation: float
    kasaura: bool = False
    flowpg: bool = False


@dataclass
class Episode:
    """One episode. Violations are those of the action asked for, before any projection.

    `empty` counts steps at which no allowed action was found, `executed` those at which a forbidden one was executed
    instead. `kasaura` and `flowpg` count violations at the looser tolerances of two papers (see
    `constraints/legacy_metric.py`). `left`: it left the safe states, in `cost` steps where the environment goes on;
    `cut`: a checkpoint ended it.
    """

    step: int = 0
    number: int = 0
    reward: float = 0.0
    length: int = 0
    violations: int = 0
    violation: float = 0.0
    projections: int = 0
    empty: int = 0
    executed: int = 0
    kasaura: int = 0
    flowpg: int = 0
    left: int = 0
    cut: int = 0
    cost: int = 0

    def add(self, reward: float, verdict: Verdict, asked: Asked) -> None:
        """Count one step."""
        self.reward += reward
        self.length += 1
        self.violations += int(asked.forbidden)
        self.violation += asked.violation
        self.projections += int(verdict.forbidden)
        self.empty += int(verdict.outcome == Outcome.EMPTY)
        self.executed += int(verdict.executed_forbidden)
        self.kasaura += int(asked.kasaura)
        self.flowpg += int(asked.flowpg)

    def add_spotless(self, reward: float) -> None:
        """Count one step at which there is nothing else to count."""
        self.reward += reward
        self.length += 1

    def close(self, info: Info) -> None:
        """Count how the episode ended."""
        self.left = int(info.get("ended") == LEFT)
        self.cost = int(info.get("episode_cost", self.left))  # type: ignore[call-overload]

    @classmethod
    def parse(cls, row: Mapping[str, str]) -> Episode:
        """From a line of `metrics.csv`."""
        episode = cls()
        for name in COLUMNS:
            if name in row:
                setattr(episode, name, (float if name in ("reward", "violation") else int)(row[name]))
        return episode


COLUMNS = tuple(entry.name for entry in fields(Episode))


def summarise(episodes: Iterable[Episode]) -> dict[str, float]:
    """Mean return and its spread, shares of violations in percent, over some episodes."""
    some = list(episodes)
    whole = [episode for episode in some if not episode.cut]
    steps = max(sum(episode.length for episode in some), 1)
    returns = np.array([episode.reward for episode in whole] or [math.nan])
    return {
        "episodes": len(whole),
        "return": float(returns.mean()),
        "return_std": float(returns.std()),
        "length": sum(episode.length for episode in whole) / max(len(whole), 1),
        "cv_percent": 100 * sum(episode.violations for episode in some) / steps,
        "cv_count": sum(episode.violations for episode in some),
        "kasaura_percent": 100 * sum(episode.kasaura for episode in some) / steps,
        "flowpg_percent": 100 * sum(episode.flowpg for episode in some) / steps,
        "cv_magnitude": sum(episode.violation for episode in some) / steps,
        "projections": sum(episode.projections for episode in some),
        "empty_count": sum(episode.empty for episode in some),
        "executed_count": sum(episode.executed for episode in some),
        "left_percent": 100 * sum(episode.left for episode in some) / max(len(whole), 1),
        "cost": sum(episode.cost for episode in whole) / max(len(whole), 1),
    }
