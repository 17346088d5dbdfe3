"""Fit a map to a task, measure it, and save it with what is known about it."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cvflows.constraints.sample import feasible_samples
from cvflows.constraints.structure import Affine
from cvflows.maps.fit import FitConfig, Fitted, Progress, fit, fit_to_samples
from cvflows.maps.kinds import kind_of, make_map
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
    map_ = make_map(kind, task.constraint, task.contexts, seed=config.seed, **options)
    chosen = kind_of(map_)

    def report(fitted: Fitted, quality: Quality) -> FitReport:
        return FitReport(task.name, chosen, fitted, quality, time.perf_counter() - began, config.seed)

    structure = task.constraint.structure(jnp.zeros(task.constraint.context_dim))
    if chosen == "gauge" != kind.casefold() and isinstance(structure, Affine):
        plain = make_map(chosen, task.constraint, task.contexts, splines=False)
        quality = measure(plain, task.contexts)
        if quality.kl <= UNIFORM:
            return report(Fitted(plain, np.zeros(0), (), 0.0, 0.0), quality)
    fitted = fit(map_, task.contexts, config, progress=progress)
    return report(fitted, measure(fitted.map, task.contexts))


def fit_task_to_samples(
    task: Task,
    kind: str,
    config: FitConfig,
    *,
    contexts: int = 512,
    progress: Progress | None = None,
    **options: Any,
) -> FitReport:
    """A map fitted to feasible actions of the task by maximum likelihood, in that many contexts of p_S."""
    began = time.perf_counter()
    keys = jax.random.split(jax.random.key(config.seed))
    x = task.contexts.sample(keys[0], contexts)
    found = feasible_samples(task.constraint, x, keys[1])
    which = np.nonzero(found.accepted)
    samples = jnp.asarray(np.asarray(x)[which[0]]), jnp.asarray(np.asarray(found.actions)[which])
    map_ = make_map(kind, task.constraint, task.contexts, seed=config.seed, **options)
    fitted = fit_to_samples(map_, task.contexts, samples, config, progress=progress)
    quality = measure(fitted.map, task.contexts)
    return FitReport(task.name, kind, fitted, quality, time.perf_counter() - began, config.seed)


def save_report(report: FitReport, folder: Path) -> Path:
    """The map with its figures and the course of its fit, in `folder`."""
    checks = [check._asdict() for check in report.fitted.checks]
    return save_map(report.fitted.map, folder, about=report.as_json(), checks=checks)
