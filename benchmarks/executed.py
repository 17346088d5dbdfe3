"""Executed actions, judged once more: what the guard lets through, by formulas that share no code with it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.formulas import FORMULAS, excess, learned_formula

BATCH = 8192
ALONE = 0.02
"""Share of the actions that go through the guard one by one; the rest in batches."""


def executed(count: int, seed: int = 0, tasks: Sequence[str] | None = None) -> dict[str, Any]:
    """`count` actions of all tasks, or some, near the boundary and far from it, at contexts up to ten times p_S's size.

    Contexts are float64, and not numbers that float32 can hold.
    """
    import cvflows as cv
    from cvflows.constraints.guard import Guard
    from cvflows.constraints.spec import describe

    rng, rows = np.random.default_rng(seed), {}
    cases = {name: (cv.task(name), formula) for name, formula in FORMULAS.items() if tasks is None or name in tasks}
    for name in ("Ball1D", "Ball3D", "Space-Corridor", "Space-Arena", "Pole") if tasks is None else ():
        task = cv.task(name).learn(episodes=200, self_test=0).task
        data = describe(task.constraint)
        assert data is not None
        cases[name] = task, learned_formula(data)
    each = -(-count // len(cases))
    for name, (task, formula) in cases.items():
        began = time.perf_counter()
        guard, done, worst, above, empty, changed = Guard(task.constraint, "least"), 0, -math.inf, 0, 0, 0
        while done < each:
            n = min(BATCH, each - done)
            x, a = _asked(task, n, rng)
            alone = max(1, int(ALONE * n))
            verdicts = [guard(context, action) for context, action in zip(x[:alone].tolist(), a[:alone], strict=True)]
            verdicts += guard.batch(x[alone:], a[alone:])
            there = np.array([verdict.outcome != cv.Outcome.EMPTY for verdict in verdicts])
            truth = excess(formula, x, np.stack([verdict.executed for verdict in verdicts]))
            worst = max(worst, float(truth[there].max(initial=-math.inf)))
            above += int((truth[there] > cv.TOLERANCE).sum())
            empty += int((~there).sum())
            changed += sum(verdict.forbidden for verdict in verdicts)
            done += n
        rows[name] = {
            "actions": done,
            "above": above,
            "worst": worst,
            "empty": empty,
            "projected": round(changed / done, 4),
            "seconds": round(time.perf_counter() - began, 1),
        }
    total = sum(row["actions"] for row in rows.values())
    return {"actions": total, "above": sum(row["above"] for row in rows.values()), "tasks": rows}


def _asked(task: Any, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Contexts and actions: uniform in the box, its corners, and close to the boundary from both sides."""
    import jax

    x = np.asarray(task.contexts.sample(jax.random.key(int(rng.integers(2**31))), count), np.float64)
    if task.limits is None:
        x = x * rng.choice([1.0, 1.0, 3.0, 10.0], (count, 1))
    x = x * (1 + 1e-7 * rng.normal(size=x.shape))
    a = rng.uniform(-1, 1, (count, task.action_dim))
    kind = rng.integers(0, 4, count)
    a[kind == 1] = np.sign(a[kind == 1])
    a[kind == 2] *= 10.0 ** rng.uniform(-3, 0, ((kind == 2).sum(), 1))
    near = kind == 3
    if near.any():
        places = np.resize(np.flatnonzero(near), count)  # of one size, which compiles once
        landed = np.asarray(task.constraint.project(x[places].astype(np.float32), a[places].astype(np.float32)))
        a[places] = landed * (1 + rng.choice([-1, 1], (count, 1)) * 10.0 ** rng.uniform(-8, -4, (count, 1)))
    return x, np.clip(a, -1, 1).astype(np.float32)
