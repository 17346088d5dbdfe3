"""Every promise under attack, in large numbers: executed actions, certified maps, kills, damaged files, hostile input.

docs/reliability.md says what is promised. With CVFLOWS_JOURNAL, a run that was cut off continues.
"""

from __future__ import annotations

from typing import Any

from benchmarks.harness import Bar, main, run_parts

COUNTS = {"actions": 10_000_000, "sets": 300, "kills": 500, "damage": 1000, "fuzz": 10_000}
QUICK = {"actions": 20_000, "sets": 3, "kills": 6, "damage": 12, "fuzz": 60}
SOME = ("R+T", "H+O+S", "HC+O")
"""Tasks of a quick look."""
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

            return certified(block * count, (block + 1) * count)
        case "kills":
            from benchmarks.faults import kills

            return kills(count, seed=block)
        case "damage":
            from benchmarks.faults import damage

            return damage(count, seed=block)
    from benchmarks.faults import fuzz

    return fuzz(count, seed=block)


def run(quick: bool) -> dict[str, Any]:
    """Attack every promise."""
    counts, blocks = (QUICK, dict.fromkeys(QUICK, 1)) if quick else (COUNTS, BLOCKS)
    jobs = [(kind, -(-counts[kind] // blocks[kind]), block) for kind in counts for block in range(blocks[kind])]
    found: dict[str, list[dict[str, Any]]] = {}
    for (kind, *_), figures in zip(jobs, run_parts(attack, jobs, "attacking", apart=True), strict=True):
        found.setdefault(kind, []).append(figures)

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
    main("trust", run, table)
