"""Does this code learn as an earlier checkout did, and as fast? The balls by four methods; speed in turns.

    git worktree add ../before COMMIT
    CVFLOWS_BEFORE=../before python -m benchmarks.unchanged --out results

What results/learning.jsonl holds is not trained again in the earlier checkout. A part is one run, kept in the journal.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, Bar, commit_of, main
from benchmarks.journal import Job, Journal, read_rows, run_parts
from benchmarks.turns import Rounds, ratio, take_turns

STEPS = {"Ball1D": 10_000, "Ball3D": 20_000}
METHODS = ("SAC+CVFlow", "DDPG+CVFlow", "NFW", "ARAM")
SEEDS = 3
WHICH = ("before", "today")
PLACES = {"HC+O": (256, 256), "Ball3D": (64, 64)}
"""Tasks whose training is timed, with the widths of the networks."""
SLOWER = 0.97
SPREADS, SHARE = 2.0, 0.02
"""Two means may differ by that many standard errors of their difference, or by that share."""


def before() -> Path:
    """The earlier checkout."""
    folder = os.environ.get("CVFLOWS_BEFORE")
    if folder is None or not (Path(folder) / "src" / "cvflows").is_dir():
        sys.exit("CVFLOWS_BEFORE must name another checkout of cvflows: git worktree add ../before COMMIT")
    return Path(folder).resolve()


def train(which: str, *job: Any) -> dict[str, Any]:
    """One run by this code (`today`) or by that of the earlier checkout (`before`)."""
    from benchmarks import learning

    if which == "today":
        return learning.train(*job)
    code = f"import json; from benchmarks.learning import train; print(json.dumps(train(*{job!r})))"
    environment = {**os.environ, "PYTHONPATH": str(before() / "src")}
    done = subprocess.run([sys.executable, "-c", code], cwd=before(), env=environment, check=True, capture_output=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def settings_of(which: str, *job: Any) -> dict[str, Any]:
    """What figures of a run depend on beside its arguments."""
    from benchmarks import learning

    return learning.settings_of(*job) if which == "today" else {"commit": commit_of(before())}


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Returns of both, and how fast they train."""
    if quick:
        rows = run_parts(train, [("today", "Ball1D", "DDPG+CVFlow", 2_000, 0)], "training", journal, config=settings_of)
        return {"runs": [row["figures"] for row in rows], "returns": [], "speed": {}, "bars": []}
    jobs: list[Job] = [
        (name, method, steps, seed) for name, steps in STEPS.items() for method in METHODS for seed in range(SEEDS)
    ]
    recorded = {row["part"]: row["figures"] for row in read_rows(RESULTS / "learning.jsonl")[0]}
    known = {job: recorded[part] for job in jobs if (part := " ".join(map(str, job))) in recorded}
    parts: list[Job] = [("today", *job) for job in jobs] + [("before", *job) for job in jobs if job not in known]
    rows = run_parts(train, parts, "training", journal, config=settings_of)
    found = {part: row["figures"] for part, row in zip(parts, rows, strict=True)}
    found |= {("before", *job): figures for job, figures in known.items()}
    returns = [
        compared(name, method, *(_returns(found, (which, name, method, steps)) for which in WHICH))
        for name, steps in STEPS.items()
        for method in METHODS
    ]
    bars = [
        Bar(f"{row['task']} {row['method']} difference of means", row["apart"], row["allowed"], at_least=False)
        for row in returns
    ]
    speed = speeds()
    bars += [Bar(f"{name} steps/s, today over before", value["ratio"], SLOWER) for name, value in speed.items()]
    return {"returns": returns, "speed": speed, "bars": bars}


def _returns(found: dict[Job, dict[str, Any]], run: Job) -> list[float]:
    """Of every seed."""
    return [float(found[*run, seed]["final"]["return"]) for seed in range(SEEDS)]


def compared(name: str, method: str, old: list[float], new: list[float]) -> dict[str, Any]:
    """Both means, how far they are apart, and how far they may be."""
    error = math.sqrt((statistics.variance(old) + statistics.variance(new)) / len(old))
    means = statistics.mean(old), statistics.mean(new)
    allowed = max(SPREADS * error, SHARE * abs(means[0]))
    found = {"task": name, "method": method, "before": old, "today": new}
    return {**found, "apart": abs(means[1] - means[0]), "allowed": allowed}


def speeds() -> dict[str, Any]:
    """Steps per second of SAC+CVFlow, in turns of the two checkouts."""
    found: dict[str, Any] = {}
    for name, hidden in PLACES.items():
        group: dict[str, list[Any]] = {"today": ["ours", name, hidden], "before": ["ours", name, hidden]}
        rounds: Rounds = take_turns("benchmarks.training_speed", group, 500, 9, folders={"before": before()})
        medians = {which: statistics.median(values) for which, values in rounds.items()}
        found[name] = {**medians, "ratio": ratio(rounds, "today", "before"), "rounds": rounds}
    return found


def table(report: dict[str, Any]) -> str:
    """Means of the seeds before and today; steps per second."""
    lines = ["| task | method | before | today | apart | allowed |", "|---" * 6 + "|"]
    for row in report["returns"]:
        means = [f"{statistics.mean(row[which]):.2f}" for which in WHICH]
        cells = [row["task"], row["method"], *means, f"{row['apart']:.2f}", f"{row['allowed']:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    for name, value in report["speed"].items():
        lines.append(f"{name}: {value['today']:.0f} steps/s, before {value['before']:.0f}, ratio {value['ratio']:.3f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main("unchanged", run, table, parts="runs")
