"""The paper's claims, each with a verdict on the runs that results/ holds: `python -m benchmarks.claims` prints them.

Runs of different budgets are compared at the smaller one: returns there are means of the last three evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import RESULTS
from benchmarks.reproduction import collected, value

OURS, BASELINES = "SAC+CVFlow", ("DPre+", "SPre+", "NFW", "FlowPG")
COMPARABLE = 0.9
"""Share of another's return that counts as comparable."""
Runs = Mapping[tuple[str, str], Sequence[dict[str, Any]]]
"""By task and method."""


class Verdict(NamedTuple):
    """On how many tasks of those that were measured a claim holds, and what was seen."""

    claim: str
    holds: int
    tasks: int
    evidence: str

    @property
    def line(self) -> str:
        """A row of the table."""
        verdict = f"holds on {self.holds} of {self.tasks} tasks" if self.tasks else "not measured yet"
        return f"| {self.claim} | {verdict} | {self.evidence if self.tasks else ''} |"


def grouped(runs: Iterable[dict[str, Any]]) -> Runs:
    """By task and method; of several budgets the largest."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        found.setdefault((run["task"], run["method"]), []).append(run)
    return {key: [run for run in some if run["steps"] == max(r["steps"] for r in some)] for key, some in found.items()}


def at(run: dict[str, Any], steps: int) -> float:
    """The return after that many steps: of the final policy where the run ends there, else of three evaluations."""
    if run["steps"] == steps:
        return value(run, "return")
    some = [found for step, found in run["curve"] if step <= steps][-3:]
    return float(np.mean(some)) if some else math.nan


def returns(runs: Runs, task: str, *methods: str) -> list[float]:
    """Mean returns of some methods on a task at the steps that all of them took; none where one is not known."""
    some = [runs.get((task, method), []) for method in methods]
    if not all(some):
        return []
    steps = min(run["steps"] for group in some for run in group)
    found = [float(np.mean([at(run, steps) for run in group])) for group in some]
    return [] if any(map(math.isnan, found)) else found


def mean(runs: Runs, task: str, method: str, figure: str) -> float | None:
    """Mean of the seeds."""
    some = runs.get((task, method))
    return float(np.mean([value(run, figure) for run in some])) if some else None


def comparable_returns(runs: Runs, tasks: Sequence[str]) -> Verdict:
    """Against the better of the two baselines that learn."""
    ratios = {}
    for task in tasks:
        found = returns(runs, task, OURS, "DPre+", "SPre+")
        if found:
            ratios[task] = found[0] / max(found[1:])
    holds = sum(ratio >= COMPARABLE for ratio in ratios.values())
    return Verdict(
        f"{OURS}'s returns are comparable to those of DPre+ and SPre+",
        holds,
        len(ratios),
        "of the better: " + _each(ratios, "{:.2f}"),
    )


def fewer(runs: Runs, tasks: Sequence[str], figure: str, claim: str) -> Verdict:
    """Ours against the least of all baselines."""
    pairs = {}
    for task in tasks:
        own, others = mean(runs, task, OURS, figure), [mean(runs, task, method, figure) for method in BASELINES]
        known = [other for other in others if other is not None]
        if own is not None and known:
            pairs[task] = (own, min(known))
    holds = sum(own <= least for own, least in pairs.values())
    cells = (f"{task} {own:.3g} / {least:.3g}" for task, (own, least) in pairs.items())
    return Verdict(claim, holds, len(pairs), f"ours / the best baseline's: {', '.join(cells)}" if pairs else "")


def better_worlds(runs: Runs, tasks: Sequence[str]) -> Verdict:
    """Ours against the best of the baselines."""
    pairs = {}
    for task in tasks:
        found = returns(runs, task, OURS, *BASELINES)
        if found:
            pairs[task] = (found[0], max(found[1:]))
    holds = sum(own >= best for own, best in pairs.values())
    cells = (f"{task} {own:,.1f} / {best:,.1f}" for task, (own, best) in pairs.items())
    claim = "in the worlds that limit states, its returns are the highest"
    return Verdict(claim, holds, len(pairs), f"ours / the best baseline's: {', '.join(cells)}" if pairs else "")


def entropy(runs: Runs, tasks: Sequence[str]) -> Verdict:
    """With the term ‖â‖²/2 against without."""
    ratios = {}
    for task in tasks:
        found = returns(runs, task, "SAC+CVFlow-plain", OURS)
        if found:
            ratios[task] = found[0] / found[1]
    holds = sum(ratio < COMPARABLE for ratio in ratios.values())
    return Verdict(
        "without ‖â‖² in the entropy the agent struggles to learn",
        holds,
        len(ratios),
        "return without / with it: " + _each(ratios, "{:.2f}"),
    )


def verdicts(runs: Iterable[dict[str, Any]]) -> list[Verdict]:
    """Of every claim."""
    from cvflows.reports.reproduction import MUJOCO, WORLDS

    found = grouped(runs)
    tasks = (*MUJOCO, *WORLDS)
    claims: list[Callable[[], Verdict]] = [
        lambda: comparable_returns(found, MUJOCO),
        lambda: fewer(
            found, MUJOCO, "training", "it asks for fewer forbidden actions in training than any baseline (%)"
        ),
        lambda: fewer(found, MUJOCO, "magnitude", "and those it asks for are nearer to the set"),
        lambda: better_worlds(found, WORLDS),
        lambda: fewer(found, WORLDS, "training", "in the worlds, fewer episodes of training leave the safe states (%)"),
        lambda: entropy(found, tasks),
    ]
    return [claim() for claim in claims]


def table(runs: Iterable[dict[str, Any]]) -> str:
    """Every claim with its verdict and what was seen."""
    return "\n".join(["| claim | verdict | seen |", "|---|---|---|", *(found.line for found in verdicts(runs))])


def _each(values: Mapping[str, float], form: str) -> str:
    return ", ".join(f"{task} {form.format(number)}" for task, number in values.items())


if __name__ == "__main__":
    print(table(collected(RESULTS)))
