"""Fit a map to a task, measure it, and save it with what is known about it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cvflows.agents.methods import FITTED_TO
from cvflows.constraints.sample import feasible_samples
from cvflows.errors import look_up
from cvflows.maps.base import ActionMap
from cvflows.maps.fit import FitConfig, Fitted, Progress, fit, fit_to_samples
from cvflows.maps.kinds import KINDS, kind_of, make_map, parse_kind
from cvflows.maps.quality import Quality, measure
from cvflows.maps.registry import AUTOMATIC, kinds_for
from cvflows.maps.store import save_map
from cvflows.tasks.base import Task

UNIFORM = 0.01
"""A density this near to uniform, in nats, is not worth a fit."""
TO_SAMPLES: Mapping[str, object] = {"base": "uniform", "width": 64}
"""Options of maps that are fitted to samples."""
SAMPLED_CONTEXTS = 512
"""Contexts in which they are drawn."""


@dataclass(frozen=True)
class FitReport:
    """A fitted map of a task and its figures."""

    task: str
    kind: str
    fitted: Fitted
    quality: Quality
    total_seconds: float
    seed: int
    transport: float = 0.0

    @property
    def map(self) -> ActionMap:
        """The fitted map."""
        return self.fitted.map

    def as_json(self) -> dict[str, object]:
        """Figures for machines; `seconds` is the fit itself, `total_seconds` includes compilation and measuring."""
        return {
            "task": self.task,
            "map": self.kind,
            "seed": self.seed,
            "seconds": round(self.fitted.seconds, 3),
            "total_seconds": round(self.total_seconds, 3),
            "gradient_steps": self.fitted.steps,
            "penalty": self.fitted.penalty,
            "transport": self.transport,
            **asdict(self.quality),
        }


def fit_map(
    task: Task,
    kind: str = "auto",
    config: FitConfig | None = None,
    *,
    fitted_to: str = "violation",
    progress: Progress | None = None,
    **options: object,
) -> FitReport:
    """A map of `kind` fitted to the task's constraint over its p_S, and measured.

    `fitted_to` is a method's: the `violation` alone, or `samples` of feasible actions. `auto` first looks at
    half-spaces whether their gauge is uniform already: then there is nothing to fit. Where the fit has a `transport`
    term, latents are mirrored with their sets unless `options` say otherwise: it cannot hold an action that changes
    its sign.
    """
    began = time.perf_counter()
    config = config or FitConfig(check_every=250)
    to_samples = look_up("fitted_to", fitted_to, {name: name for name in FITTED_TO}) == "samples"
    given = {**TO_SAMPLES, **options} if to_samples else options
    if config.transport and _can_mirror(task, kind, given):
        given = {"mirrored": True, **given}
    map_ = make_map(kind, task.constraint, task.contexts, seed=config.seed, **given)
    chosen = kind_of(map_)
    if to_samples:
        fitted = fit_to_samples(map_, task.contexts, _samples(task, config.seed), config, progress=progress)
        quality = measure(fitted.map, task.contexts)
    elif not config.transport and (plain := _uniform_gauge(task, kind, chosen)) is not None:
        fitted, quality = Fitted(plain[0], np.zeros(0), (), 0.0, 0.0), plain[1]
    else:
        fitted = fit(map_, task.contexts, config, progress=progress)
        quality = measure(fitted.map, task.contexts)
    return FitReport(task.name, chosen, fitted, quality, time.perf_counter() - began, config.seed, config.transport)


def _can_mirror(task: Task, kind: str, options: Mapping[str, object]) -> bool:
    """Whether the kind that will be made has the option `mirrored`, and its text does not set it."""
    name, written = parse_kind(kind)
    automatic = name in AUTOMATIC
    found = kinds_for(task.constraint, {**written, **options}, calm=name == "calm")[0] if automatic else KINDS[name]
    return "mirrored" not in written and (found.passes_options or "mirrored" in found.options)


def _samples(task: Task, seed: int) -> tuple[Float[Array, "count context"], Float[Array, "count dim"]]:
    """Contexts of p_S with feasible actions."""
    keys = jax.random.split(jax.random.key(seed))
    x = task.contexts.sample(keys[0], SAMPLED_CONTEXTS)
    found = feasible_samples(task.constraint, x, keys[1])
    which = np.nonzero(found.accepted)
    return jnp.asarray(np.asarray(x)[which[0]]), jnp.asarray(np.asarray(found.actions)[which])


def _uniform_gauge(task: Task, kind: str, chosen: str) -> tuple[ActionMap, Quality] | None:
    """The gauge map without splines, where `auto` chose a gauge for half-spaces and its density is uniform."""
    shape = task.constraint.shape(jnp.zeros(task.constraint.context_dim))
    if chosen != "gauge" or kind.casefold() == "gauge" or not shape.flat:
        return None
    plain = make_map(chosen, task.constraint, task.contexts, splines=False)
    quality = measure(plain, task.contexts)
    return (plain, quality) if quality.kl <= UNIFORM else None


def save_report(report: FitReport, folder: Path) -> Path:
    """The map with its figures and the course of its fit, in `folder`."""
    checks = [check._asdict() for check in report.fitted.checks]
    return save_map(report.fitted.map, folder, about=report.as_json(), checks=checks)
