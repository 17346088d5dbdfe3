"""Fit a map to a task, measure it, and save it with what is known about it."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from cvflows.constraints.structure import Affine
from cvflows.maps.fit import FitConfig, Fitted, Progress, fit
from cvflows.maps.kinds import kind_for, make_map
from cvflows.maps.quality import Quality, measure
from cvflows.maps.store import save_map
from cvflows.tasks.base import Task

UNIFORM = 0.01
"""A density this near to uniform, in nats, is not worth a fit."""


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
    """A map of `kind` fitted to the task's constraint over its p_S, and measured.

    `auto` first looks at half-spaces whether their gauge is uniform already: then there is nothing to fit.
    """
    began = time.perf_counter()
    config = config or FitConfig(check_every=250)
    chosen = kind_for(task.constraint) if kind.casefold() == "auto" else kind.casefold()

    def report(fitted: Fitted, quality: Quality) -> FitReport:
        return FitReport(task.name, chosen, fitted, quality, time.perf_counter() - began, config.seed)

    structure = task.constraint.structure(jnp.zeros(task.constraint.context_dim))
    if chosen == "gauge" != kind.casefold() and isinstance(structure, Affine):
        plain = make_map(chosen, task.constraint, task.contexts, splines=False)
        quality = measure(plain, task.contexts)
        if quality.kl <= UNIFORM:
            return report(Fitted(plain, np.zeros(0), (), 0.0, 0.0), quality)
    map_ = make_map(chosen, task.constraint, task.contexts, seed=config.seed, **options)
    fitted = fit(map_, task.contexts, config, progress=progress)
    return report(fitted, measure(fitted.map, task.contexts))


def save_report(report: FitReport, folder: Path) -> Path:
    """The map with its figures and the course of its fit, in `folder`."""
    checks = [check._asdict() for check in report.fitted.checks]
    return save_map(report.fitted.map, folder, about=report.as_json(), checks=checks)
