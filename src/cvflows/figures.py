"""Figures that are printed, written as JSON and reported: their names and types."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NotRequired, TypedDict

State = Literal["complete", "running", "cut off", "waiting", "failed", "unreadable"]
"""Of a run."""


@dataclass(frozen=True)
class Status:
    """One run: steps so far and in all; mean return and violations in percent, of recent episodes or the evaluation.

    `speed`: steps per second between its last two checkpoints; `memory`: bytes of the process that trains it, if it is
    one of this machine.
    """

    folder: Path
    task: str
    method: str
    seed: int
    state: State
    step: int
    steps: int
    value: float = math.nan
    cv_percent: float = math.nan
    problem: str = ""
    speed: float = math.nan
    memory: int = 0

    def as_json(self) -> dict[str, object]:
        """JSON-ready: NaN, which JSON does not know, as None."""
        values = {**asdict(self), "folder": str(self.folder)}
        return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in values.items()}


def seconds_left(statuses: Sequence[Status], speeds: Mapping[str, float] | None = None) -> float | None:
    """How long the runs that are not over will take at this rate, as many at a time as now; None: not known yet.

    A run is taken to be as fast as itself (`speeds` by folder, or its own), as others of its task and method, of its
    method, or of any.
    """
    known: dict[tuple[str, ...], list[float]] = {}
    for status in statuses:
        own = (speeds or {}).get(str(status.folder), status.speed)
        if own > 0:
            for key in _alike(status):
                known.setdefault(key, []).append(own)
    if not known:
        return None
    left = 0.0
    for status in statuses:
        if status.state in ("running", "cut off", "waiting"):
            some = next(known[key] for key in _alike(status) if key in known)
            left += (status.steps - status.step) / (sum(some) / len(some))
    return left / max(sum(status.state == "running" for status in statuses), 1)


def _alike(status: Status) -> tuple[tuple[str, ...], ...]:
    """What a run has in common with others, the closest first."""
    return (str(status.folder), "run"), (status.task, status.method), (status.method,), ()


class TaskRow(TypedDict):
    """A task, as `cvflows tasks` lists it."""

    task: str
    environment: str
    gymnasium_id: str
    constraint: str
    formula: str
    on: str
    action_dim: int
    convex: bool
    star_shaped: bool
    contexts: str
    feasible_share: float | None
    violations: str
    in_paper: bool


class MethodRow(TypedDict):
    """A method, as `cvflows methods` lists it."""

    method: str
    algorithm: str
    decoder: str
    description: str
    settings: dict[str, object]
    map: str | None


class SettingRow(TypedDict):
    """A setting of a method, as `cvflows settings` lists it."""

    name: str
    value: str
    default: str
    allowed: str
    description: str


class ExitCount(TypedDict):
    """How many episodes passed a limit for one cause."""

    limit: str
    cause: str
    episodes: int


class PolicyFigures(TypedDict):
    """Guarded episodes of one policy; those that began outside the limits are counted apart."""

    policy: str
    episodes: int
    began_outside: int
    left: int
    steps: int
    projected: int
    exceeded: NotRequired[int]
    exits: list[ExitCount]


class SelfTestFigures(TypedDict):
    """Whether guarded episodes stayed within the limits."""

    passed: bool
    problem: str | None
    unseen: list[int]
    covered: NotRequired[float]
    policies: list[PolicyFigures]
    seconds: float


class CostFigures(TypedDict):
    """How well the change of one cost is predicted."""

    limit: str
    error: float
    spread: float
    worst: float
    persistence: float
    push: float
    strength: float
    overpowered: float


class SignalFigures(TypedDict):
    """A learned constraint: its form, what it was learned from, and how well it predicts."""

    form: str
    model: str
    transitions: int
    costs: list[CostFigures]
    episodes: int | None
    seconds: float
    self_test: SelfTestFigures | None
    alpha: NotRequired[float | None]


class FitFigures(TypedDict):
    """A fitted map."""

    task: str
    map: str
    seed: int
    seconds: float
    total_seconds: float
    gradient_steps: int
    penalty: float
    transport: float
    accuracy: float
    recall: float
    covered: float
    f1: float
    kl: float
    mean_violation: float
    infeasible: int
    latents: int
    contexts: int
    calm: float | None
    lipschitz: float | None
    compared: int
    out: str
    picture: str
    signal: NotRequired[SignalFigures]


class PaperFigures(TypedDict):
    """The paper's best method on a task, its mean return and their spread over seeds."""

    method: str
    mean: float
    spread: float


class RunFigures(TypedDict):
    """A run: `training` and `final` are what `summarise` makes of their episodes."""

    task: str
    method: str
    seed: NotRequired[int]
    steps: NotRequired[int]
    violations_count: NotRequired[str]
    training: NotRequired[dict[str, float]]
    final: NotRequired[dict[str, float]]
    fingerprint: NotRequired[str]
    seconds: NotRequired[float]
    steps_per_second: NotRequired[float | None]
    out: NotRequired[str]
    picture: NotRequired[str]
    paper: NotRequired[PaperFigures]
    video: NotRequired[str]
    missing: NotRequired[str]
    signal: NotRequired[SignalFigures]
