"""How calm are maps, and what does it cost? Certified maps of four tasks; learned ones with a transport term.

Each map is fitted in a single-threaded process: CVFLOWS_WORKERS says how many of them at a time.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Bar, main
from benchmarks.journal import Journal, run_parts

if TYPE_CHECKING:
    from jax import Array

    import cvflows as cv

TASKS = ("H+M", "W+M", "W+O+S", "HC+O")
MIRRORED = ("H+M", "W+M")
"""Tasks whose set is mirrored by the sign of a context entry, where latents may be mirrored with it."""
SOFTNESS = (0.1, 0.5, 1.0)
TRANSPORT = (0.0, 0.1, 1.0, 10.0)
CROSS = "cross"
STEPS = 1500
Job = tuple[str, str, float, dict[str, Any]]
"""Task or set, kind of map, β, options of the map."""


def jobs(quick: bool) -> list[Job]:
    """Certified maps, then learned ones for every β."""
    if quick:
        return [("H+M", "ray", 0.0, {}), ("H+M", "gauge", 0.0, {"mirrored": True, "splines": False})]
    mirrored = {"mirrored": True}
    work: list[Job] = [(task, "ray", 0.0, {"softness": value}) for task in TASKS for value in SOFTNESS]
    work += [("W+M", "boxspline", beta, mirrored) for beta in TRANSPORT]
    work += [(CROSS, "boxspline", beta, mirrored) for beta in TRANSPORT]
    work += [(task, kind, 0.0, {}) for task in TASKS for kind in ("slice", "gauge")]
    work += [(task, kind, 0.0, mirrored) for task in MIRRORED for kind in ("slice", "gauge")]
    work += [("W+M", "slice", beta, mirrored) for beta in TRANSPORT[1:]]
    return [*work, ("W+M", "boxspline", 0.0, {})]


def cross(x: Array, a: Array) -> Array:
    """Products of two entries, each limited by a context entry: the set is not convex."""
    import jax.numpy as jnp

    return jnp.abs(jnp.stack([a[0] * a[1], a[1] * a[2], a[2] * a[0]])) / x - 1


def find_set(name: str) -> tuple[cv.AbstractConstraint, cv.ContextDistribution]:
    """The set of a task with its contexts, or the cross."""
    import cvflows as cv

    if name == CROSS:
        return cv.Constraint(cross, 3, 3), cv.Uniform(3, 0.1, 1.0)
    task = cv.task(name)
    return task.constraint, task.contexts


def fit_config(name: str, kind: str, beta: float, options: dict[str, Any]) -> dict[str, Any]:
    """Every setting of a fit."""
    from cvflows.maps.fit import FitConfig

    return asdict(FitConfig(steps=STEPS, transport=beta))


def fit_one(name: str, kind: str, beta: float, options: dict[str, Any]) -> dict[str, Any]:
    """One fit and its figures."""
    import cvflows as cv

    began = time.perf_counter()
    constraint, contexts = find_set(name)
    fitted = cv.fit(
        cv.make_map(kind, constraint, contexts, **options), contexts, cv.FitConfig(steps=STEPS, transport=beta)
    )
    quality = asdict(cv.measure(fitted.map, contexts))
    spent = {"seconds": round(fitted.seconds, 3), "total_seconds": round(time.perf_counter() - began, 3)}
    about = {"task": name, "map": kind, "transport": beta, "options": options, "gradient_steps": fitted.steps}
    return {**about, **spent, **quality}


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Calm beside accuracy, recall and KL: certified maps of four tasks, and learned ones with a transport term."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = cache  # maps of one set share what is compiled
        maps = [row["figures"] for row in run_parts(fit_one, jobs(quick), "fitting maps", journal, config=fit_config)]
    order = {name: place for place, name in enumerate((*TASKS, CROSS))}
    maps.sort(key=lambda one: (order[one["task"]], one["map"], "mirrored" in one["options"], one["transport"]))
    return {"maps": maps, "bars": [] if quick else list(bars(maps))}


def bars(maps: list[dict[str, Any]]) -> Iterator[Bar]:
    """A ray map with little softness is calm; a transport term makes learned maps calmer."""
    for one in maps:
        if one["options"].get("softness") == SOFTNESS[0]:
            yield Bar(f"{one['task']} ray calm", one["calm"], 0.02, at_least=False)
    for name in ("W+M", CROSS):
        learned = [one for one in maps if one["task"] == name and one["map"] == "boxspline" and one["options"]]
        first, last = (one["calm"] for one in learned if one["transport"] in (TRANSPORT[0], TRANSPORT[-1]))
        yield Bar(f"{name} calm with transport, over without", last / first, 0.8, at_least=False)


def described(one: dict[str, Any]) -> str:
    """A map and what was asked of it."""
    words = [one["map"], *(["mirrored"] if one["options"].get("mirrored") else [])]
    words += [f"ε = {one['options']['softness']:g}"] if "softness" in one["options"] else []
    words += [f"β = {one['transport']:g}"] if one["transport"] else []
    return ", ".join(words)


def figure(value: float | None) -> str:
    """Three digits, or a dash where there is no figure."""
    return "–" if value is None else f"{value:.3g}" if value >= 1e-3 else f"{value:.0e}"


def table(report: dict[str, Any]) -> str:
    """One line per map."""
    lines = [
        "| set | map | accuracy | recall | KL | calm | compared | Lipschitz | fit s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one['task']} | {described(one)} | {one['accuracy']:.2%} | {one['recall']:.1%} | {one['kl']:.3f} "
        f"| {figure(one['calm'])} | {one['compared']:,} | {figure(one['lipschitz'])} | {one['seconds']:.1f} |"
        for one in report["maps"]
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main("calm", run, table, parts="maps")
