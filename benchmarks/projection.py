"""Projection of forbidden actions: speed against cvxpy + Clarabel in the same run, exactness, feasibility."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cvflows as cv
from benchmarks.harness import Bar, main, need, one_core, seconds
from cvflows.constraints.contexts import ContextDistribution
from cvflows.tasks.catalogue import TASKS

SAMPLES, QUICK_SAMPLES = 2048, 256
BATCHES, QUICK_BATCHES = (1, 256, 4096), (1, 256)
HALF_SPACES = "half-spaces 6×6"
QUICK_SETS = ("R+L2", "R+D", "H+O+S", "R+T")
REACH = 3.0
SEPARABLE, LIFTED, NESTED, FLAT = "separable", "lifted", "O+S", "half-spaces"
SPEED_BARS = {SEPARABLE: 2000, NESTED: 100, FLAT: 80, LIFTED: 8}
LATENCY = 0.3e-3


def kind_of(name: str) -> str | None:
    """Which speed bar applies; None where no solver form exists to compare with."""
    if not TASKS[name].convex:
        return None
    return NESTED if name.endswith("O+S") else LIFTED if name == "R+T" else SEPARABLE


def robots() -> list[cv.Task]:
    """The tasks of the four robots of the benchmark, whose actions are constrained directly."""
    return [task for name, task in TASKS.items() if name.split("+")[0] in ("R", "H", "W", "HC")]


Entry = tuple[str, cv.AbstractConstraint, ContextDistribution, cv.AbstractConstraint, str | None]


def entries() -> list[Entry]:
    """The fifteen tasks, 6×6 half-spaces, and two sets known only as JAX functions."""
    half_spaces = cv.HalfSpaces(6, 6)
    rows = cv.Product((cv.Uniform(6, -1.0, -0.1), cv.Normal(36, 0.0, 1.0)))
    speeds = cv.Normal(6, 0.0, 15.0)
    total = cv.Constraint(lambda x, a: jnp.sum(jnp.abs(x * a)) / 20 - 1, 6, 6, convex=True)
    spent = cv.Constraint(lambda x, a: jnp.sum(jnp.maximum(x * a, 0)) / 10 - 1, 6, 6, convex=True)
    both, twin = spent & cv.Ball(6, 0.5), cv.MaxPower(6, 10.0) & cv.Ball(6, 0.5)
    tasks: list[Entry] = [(t.name, t.constraint, t.contexts, t.constraint, kind_of(t.name)) for t in robots()]
    return [
        *tasks,
        (HALF_SPACES, half_spaces, rows, half_spaces, FLAT),
        ("function Σ|wa|", total, speeds, cv.Orthoplex(6, 20.0), LIFTED),
        ("function & Ball", both, cv.Uniform(6, -10.0, 10.0), twin, LIFTED),
    ]


def measure(entry: Entry, quick: bool) -> dict[str, Any]:
    """Figures of one set."""
    _, constraint, contexts, twin, kind = entry
    samples, batches, repeats = (QUICK_SAMPLES, QUICK_BATCHES, 15) if quick else (SAMPLES, BATCHES, 60)
    rng = np.random.default_rng(0)
    x = np.asarray(contexts.sample(jax.random.key(0), samples))
    a = rng.uniform(-REACH, REACH, (samples, constraint.action_dim)).astype(np.float32)
    found = constraint.projection(x, a)
    action = np.asarray(found.action)
    figures: dict[str, Any] = {
        "kind": kind or "non-convex",
        "exact": float(np.mean(np.asarray(found.outcome) == cv.Outcome.EXACT)),
        "worst_violation": float(np.max(constraint.violation(x, action))),
        "infeasible": int(np.sum(~np.asarray(constraint.contains(x, action)))),
        "samples": samples,
    }
    for batch in batches:
        index = np.arange(batch) % samples
        batch_x, batch_a = jnp.asarray(x[index]), jnp.asarray(a[index])
        if batch == 1:
            batch_x, batch_a = batch_x[0], batch_a[0]
        many = repeats * (4 if batch == 1 else 1) // (4 if batch == 4096 else 1)

        def project(x: Any = batch_x, a: Any = batch_a) -> None:
            jax.block_until_ready(constraint.project(x, a))

        time = seconds(project, repeats=many)
        figures[f"seconds_at_{batch}"] = time
        figures[f"per_second_at_{batch}"] = batch / time
    if kind is not None:
        figures |= compare(twin, x, a, action, 40 if quick else samples, figures)
    else:
        figures |= compare_shell(constraint, a, action, 32 if quick else 256)
    return figures


def compare(
    twin: cv.AbstractConstraint, x: np.ndarray, a: np.ndarray, action: np.ndarray, count: int, figures: dict[str, Any]
) -> dict[str, Any]:
    """The same samples by cvxpy + Clarabel, parameters cached: its time, and our excess distance over its optimum."""
    from cvflows.constraints.reference import ReferenceSolver

    timed = ReferenceSolver(twin, tolerance=1e-8)  # Clarabel's defaults; the optimum below is solved more tightly
    index = itertools.cycle(range(len(a)))

    def project_next() -> None:
        i = next(index)
        timed.project(x[i], a[i])

    peer = seconds(project_next, repeats=min(count, 200))
    exact = ReferenceSolver(twin, tolerance=1e-10)
    best = np.stack([exact.project(x[i], a[i]) for i in range(count)])
    excess = np.linalg.norm(action[:count] - a[:count], axis=1) - np.linalg.norm(best - a[:count], axis=1)
    return {
        "solver_seconds": peer,
        "compared": count,
        "worst_excess": float(excess.max()),
        "share_within_1e-3": float(np.mean(excess <= 1e-3)),
        **{f"ratio_at_{b}": figures[f"per_second_at_{b}"] * peer for b in BATCHES if f"per_second_at_{b}" in figures},
    }


def compare_shell(constraint: cv.AbstractConstraint, a: np.ndarray, action: np.ndarray, count: int) -> dict[str, Any]:
    """Non-convex sets have no solver form: excess over the nearest of a million points of the shell."""
    shell = constraint.radii
    assert shell is not None, constraint
    rng = np.random.default_rng(1)
    cloud = rng.normal(size=(1_000_000, constraint.action_dim)).astype(np.float32)
    cloud *= rng.choice(shell, (len(cloud), 1)) / np.linalg.norm(cloud, axis=1, keepdims=True)
    cloud = cloud[np.abs(cloud).max(axis=1) <= 1]
    best = np.array([np.sqrt(np.min(np.sum((cloud - point) ** 2, axis=1))) for point in a[:count]])
    excess = np.linalg.norm(action[:count] - a[:count], axis=1) - best
    return {
        "compared": count,
        "worst_excess": float(excess.max()),
        "share_within_1e-3": float(np.mean(excess <= 1e-3)),
    }


def run(quick: bool) -> dict[str, Any]:
    """Projection of random actions up to ±3 in contexts drawn as in the paper."""
    need("cvxpy", "solver")
    one_core()
    sets = {}
    for entry in entries():
        if quick and entry[0] not in QUICK_SETS:
            continue
        print(f"  {entry[0]}", file=sys.stderr, flush=True)
        sets[entry[0]] = measure(entry, quick)
    slowest = max(f["seconds_at_1"] for name, f in sets.items() if not name.startswith("function"))
    bars = [
        Bar("infeasible results, all sets", sum(f["infeasible"] for f in sets.values()), 0, at_least=False),
        Bar("worst violation, all sets", max(f["worst_violation"] for f in sets.values()), 1e-6, at_least=False),
        Bar(
            "slowest single projection, seconds",
            slowest,
            LATENCY,
            at_least=False,
        ),
    ]
    for name, figures in sets.items():
        kind = figures["kind"]
        bars.append(Bar(f"{name}: share within 1e-3 of the optimum", figures["share_within_1e-3"], 0.999))
        if kind in SPEED_BARS:
            bars.append(Bar(f"{name}: speed-up at 256 ({kind})", figures["ratio_at_256"], SPEED_BARS[kind]))
    return {"sets": sets, "bars": bars}


def table(report: dict[str, Any]) -> str:
    """The figures as text."""
    lines = ["set                 B=1 µs   B=256 /s  B=4096 /s  ×solver   exact  worst CV    excess"]
    for name, f in report["sets"].items():
        ratio, large = (f"{f[key]:.0f}" if key in f else "-" for key in ("ratio_at_256", "per_second_at_4096"))
        lines.append(
            f"{name:17} {f['seconds_at_1'] * 1e6:8.0f} {f['per_second_at_256']:10.0f} {large:>10} "
            f"{ratio:>8} {f['exact']:7.2%} {f['worst_violation']:9.1e} {f['worst_excess']:9.1e}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main("projection", run, table)
