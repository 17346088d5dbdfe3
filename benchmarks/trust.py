"""Every promise under attack, in large numbers: executed actions, certified maps, kills, damaged files, hostile input.

docs/reliability.md says what is promised. With --out, a run that was cut off continues.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

from benchmarks.harness import Bar, main
from benchmarks.journal import Journal, run_parts

COUNTS = {"actions": 10_000_000, "sets": 300, "kills": 500, "damage": 1000, "fuzz": 10_000}
QUICK = {"actions": 15_000, "sets": 2, "kills": 4, "damage": 8, "fuzz": 60}
SOME = ("R+L2", "H+O+S", "HC+O")
"""Tasks of a quick look: those whose solvers compile fast."""
SMALL = {"largest": 2, "most_parts": 1}
"""Limits of its random sets."""
TOGETHER = (("actions", "sets"), ("kills", "damage", "fuzz"))
"""What it tries in one process each: the attacks on runs share what they compile."""
BLOCKS = {"actions": 8, "sets": 10, "kills": 5, "damage": 5, "fuzz": 5}
"""Parts that each attack is split into, processes of their own."""


def attack(kind: str, count: int, block: int) -> dict[str, Any]:
    """One block of an attack."""
    match kind:
        case "actions":
            from benchmarks.executed import executed

            return executed(count, seed=block, tasks=None if count > QUICK["actions"] else SOME)
        case "sets":
            from benchmarks.certified import certified

            return certified(block * count, (block + 1) * count, **({} if count > QUICK["sets"] else SMALL))
        case "kills":
            from benchmarks.faults import kills

            return kills(count, seed=block)
        case "damage":
            from benchmarks.faults import damage

            return damage(count, seed=block)
    from benchmarks.faults import fuzz

    return fuzz(count, seed=block)


def attack_quickly(*kinds: str) -> dict[str, Any]:
    """Few of several attacks, one after the other."""
    return {kind: attack(kind, QUICK[kind], 0) for kind in kinds}


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Attack every promise."""
    with tempfile.TemporaryDirectory() as folder:  # what one process compiled, the others find
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", folder)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
        return attack_all(quick, journal)


def attack_all(quick: bool, journal: Journal) -> dict[str, Any]:
    """Every attack, and the bars."""
    counts = QUICK if quick else COUNTS
    found: dict[str, list[dict[str, Any]]] = {}
    if quick:
        for row in run_parts(attack_quickly, TOGETHER, "attacking", journal):
            found |= {kind: [one] for kind, one in row["figures"].items()}
    else:
        jobs = [(kind, -(-counts[kind] // BLOCKS[kind]), block) for kind in counts for block in range(BLOCKS[kind])]
        for (kind, *_), row in zip(jobs, run_parts(attack, jobs, "attacking", journal, apart=True), strict=True):
            found.setdefault(kind, []).append(row["figures"])

    def total(kind: str, name: str) -> int:
        values = [part[name] for part in found[kind]]
        return sum(len(value) if isinstance(value, list) else value for value in values)

    worst: dict[str, float] = {}
    for part in found["actions"]:
        for task, row in part["tasks"].items():
            worst[task] = max(worst.get(task, row["worst"]), row["worst"])
    names = {
        "actions": ("actions", "above"),
        "sets": ("sets", "certified", "wrong"),
        "kills": ("tried", "identical"),
        "damage": ("tried", "refused", "harmless", "silently_wrong", "tracebacks"),
        "fuzz": ("tried", "tracebacks"),
    }
    attacks = {kind: {name: total(kind, name) for name in some} for kind, some in names.items()}
    for kind in ("actions", "sets"):
        attacks[kind] = {"tried": attacks[kind].pop(kind), **attacks[kind]}
    failed = {
        "executed actions above 1e-6": attacks["actions"]["above"],
        "wrongly certified maps": attacks["sets"]["wrong"],
        "killed runs that ended differently": attacks["kills"]["tried"] - attacks["kills"]["identical"],
        "damaged files that were silently wrong": attacks["damage"]["silently_wrong"],
        "damaged files that gave tracebacks": attacks["damage"]["tracebacks"],
        "hostile calls that gave tracebacks": attacks["fuzz"]["tracebacks"],
    }
    bars = [Bar(name, value, 0, at_least=False) for name, value in failed.items()]
    bars += [Bar(f"{kind} tried", attacks[kind]["tried"], counts[kind]) for kind in counts]
    return {"attacks": attacks, "worst": worst, "parts": found, "bars": bars}


def table(report: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = ["| attack | tried | |", "|---|---|---|"]
    for kind, figures in report["attacks"].items():
        rest = ", ".join(f"{name} {value:,}" for name, value in figures.items() if name != "tried")
        lines.append(f"| {kind} | {figures['tried']:,} | {rest} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main("trust", run, table, parts="parts")
