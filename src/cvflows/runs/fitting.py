"""Fit a map to a task, measure it, and save it with what is known about it."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cvflows.maps.fit import FitConfig, Fitted, Progress, fit
from cvflows.maps.kinds import kind_for, make_map
from cvflows.maps.quality import Quality, measure
from cvflows.maps.store import save_map
from cvflows.tasks.base import Task


@dataclass(frozen=True)
class FitReport:
    """A fitted map of a task and its figures."""

    task: str
    kind: str
    fitted: Fitted
    quality: Quality
    total_seconds: float
    seed: int

    def as_json(self) -> dict[str, Any]:
        """Figures for machines; `seconds` is the fit itself, `total_seconds` includes compilation and measuring."""
        return {
            "task": self.task,
            "map": self.kind,
            "seed": self.seed,
            "seconds": round(self.fitted.seconds, 3),
            "total_seconds": round(self.total_seconds, 3),
            "gradient_steps": self.fitted.steps,
            "penalty": self.fitted.penalty,
            **asdict(self.quality),
        }


def fit_task(
    task: Task,
    kind: str = "auto",
    config: FitConfig | None = None,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> FitReport:
    """A map of `kind` fitted to the task's constraint over its p_S, and measured."""
    began = time.perf_counter()
    config = config or FitConfig(check_every=250)
    kind = kind.casefold()
    kind = kind_for(task.constraint) if kind == "auto" else kind
    map_ = make_map(kind, task.constraint, task.contexts, seed=config.seed, **options)
    fitted = fit(map_, task.contexts, config, progress=progress)
    quality = measure(fitted.map, task.contexts)
    return FitReport(task.name, kind, fitted, quality, time.perf_counter() - began, config.seed)


def save_report(report: FitReport, folder: Path) -> Path:
    """The map with its figures and the course of its fit, in `folder`."""
    checks = [check._asdict() for check in report.fitted.checks]
    return save_map(report.fitted.map, folder, about=report.as_json(), checks=checks)
