"""What do suites and reports cost? Two workers against one, a launcher's overhead per run, a report of 720 runs."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import Bar, main, need
from benchmarks.synthetic import write_map, write_run

RUNS, STEPS = 4, 4000
SMALL = {"hidden": (64, 64), "batch": 256, "learning_starts": 500, "train_every": 1}
ROUNDS = 3


def grid(steps: int, seeds: int) -> Any:
    """Runs that all take the same time and share nothing that must be prepared."""
    from cvflows.runs.grid import Grid

    return Grid(("R+L2",), ("SAC",), seeds, steps=steps, final_episodes=1, evaluate_every=10**6, set=SMALL)


def seconds_of(launcher: Any, steps: int, seeds: int) -> float:
    """A whole suite, in a fresh folder."""
    from cvflows.runs.suite import Suite

    with tempfile.TemporaryDirectory() as folder:
        figures = Suite([grid(steps, seeds)], Path(folder)).run(launcher)
        assert figures["states"] == {"complete": seeds}, figures
    return float(figures["seconds"])


def scaling(steps: int, rounds: int) -> dict[str, Any]:
    """Throughput of two workers over one, in turns."""
    from cvflows.runs.launch import Local

    seconds_of(Local(1), 600, 1)  # fills the compilation cache
    ratios = []
    for _ in range(rounds):
        one, two = (seconds_of(Local(workers), steps, RUNS) for workers in (1, 2))
        ratios.append(one / two)
    return {"runs": RUNS, "steps": steps, "two_over_one": statistics.median(ratios), "rounds": ratios}


def ray_overhead(rounds: int) -> dict[str, Any]:
    """Seconds per run that a Ray cluster of one process adds to a local worker, on runs that hardly train."""
    import ray

    from cvflows.runs.launch import Local, Ray

    began = time.monotonic()
    ray.init(num_cpus=1, log_to_driver=False, include_dashboard=False)
    start = time.monotonic() - began
    try:
        pairs = [(seconds_of(Local(1), 200, 2), seconds_of(Ray(), 200, 2)) for _ in range(rounds)]
    finally:
        ray.shutdown()
    extra = statistics.median((on_ray - local) / 2 for local, on_ray in pairs)
    return {"start": start, "per_run": extra, "local_per_run": statistics.median(local / 2 for local, _ in pairs)}


def big_report(runs: int) -> dict[str, Any]:
    """A report of made-up runs, with maps where the set is known, in a process of its own: seconds and memory."""
    from cvflows.agents.methods import METHODS
    from cvflows.tasks.catalogue import TASKS

    known = [task for task in TASKS.values() if task.in_paper]
    tasks = [task.name for task in known]
    with tempfile.TemporaryDirectory() as folder:
        for index in range(runs):
            name, method = tasks[index % 12], list(METHODS)[(index // 12) % 6]
            write_run(Path(folder) / name / method / str(index // 72), name, method, index // 72, steps=1_000_000)
        for task in known[:2] if runs < 720 else known:
            if task.limits is None:
                write_map(Path(folder), task.name)
        page = Path(folder) / "page.html"
        command = [sys.executable, "-m", "cvflows", "report", folder, "--out", str(page), "--json"]
        began = time.monotonic()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        taken = time.monotonic() - began
        shown = len(json.loads(done.stdout)["maps"])
        size = page.stat().st_size
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {"runs": runs, "maps": shown, "seconds": taken, "megabytes": size / 1e6, "memory_megabytes": memory / 1e3}


def run(quick: bool) -> dict[str, Any]:
    """All three."""
    need("ray", "ray")
    report = big_report(72 if quick else 720)
    with tempfile.TemporaryDirectory() as compiled:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled  # as the command line does
        scale = scaling(1500 if quick else STEPS, 1 if quick else ROUNDS)
        extra = ray_overhead(1 if quick else ROUNDS)
    bars = [Bar("two workers over one", scale["two_over_one"], 1.7)]
    bars.append(Bar(f"seconds for a report of {report['runs']} runs", report["seconds"], 60.0, at_least=False))
    return {"scaling": scale, "ray": extra, "report": report, "bars": bars}


def table(report: dict[str, Any]) -> str:
    """The figures in words."""
    scale, extra, page = report["scaling"], report["ray"], report["report"]
    return "\n".join(
        [
            f"- two workers: {scale['two_over_one']:.2f} × one ({scale['runs']} runs of {scale['steps']:,} steps)",
            f"- Ray: {extra['start']:.1f} s to start, {extra['per_run']:.1f} s more per run than a local worker",
            f"- report of {page['runs']} runs and {page['maps']} maps: {page['seconds']:.1f} s, "
            f"{page['memory_megabytes']:.0f} MB of memory, "
            f"{page['megabytes']:.1f} MB",
        ]
    )


if __name__ == "__main__":
    main("suite_scaling", run, table)
