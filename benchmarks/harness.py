"""What every benchmark shares: flags, timing, bars, and one JSON object at the end.

A benchmark is a function `run(quick) -> dict` that returns its figures with a list of `Bar`s under "bars". One that
takes many minutes keeps its parts in a `Journal`, so that it can be cut off and started again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Bar:
    """A bound that a figure must meet: at least `bound` when `at_least`, else at most."""

    name: str
    value: float
    bound: float
    at_least: bool = True

    @property
    def ok(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, "bound": self.bound, "ok": self.ok}


class Journal:
    """Figures of finished parts, one JSON line each, in the file that CVFLOWS_JOURNAL names; nowhere without it."""

    def __init__(self) -> None:
        name = os.environ.get("CVFLOWS_JOURNAL")
        self.path = Path(name) if name else None
        lines = self.path.read_text().splitlines() if self.path and self.path.exists() else []
        self.done: dict[str, dict[str, Any]] = {entry["part"]: entry["figures"] for entry in map(json.loads, lines)}

    def add(self, part: str, figures: dict[str, Any]) -> None:
        self.done[part] = figures
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps({"part": part, "figures": figures}) + "\n")


def run_parts(
    work: Callable[..., dict[str, Any]], jobs: Sequence[tuple[Any, ...]], title: str, *, apart: bool = False
) -> list[dict[str, Any]]:
    """`work(*job)` for every job, skipping those a journal already holds.

    In single-threaded processes, as many as CVFLOWS_WORKERS says, two by default; with `apart`, a new one for each job.
    """
    from rich.console import Console
    from rich.progress import track

    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    journal = Journal()
    names = [" ".join(map(str, job)) for job in jobs]
    left = [(name, job) for name, job in zip(names, jobs, strict=True) if name not in journal.done]
    workers = int(os.environ.get("CVFLOWS_WORKERS", "2"))
    with ProcessPoolExecutor(workers, get_context("spawn"), max_tasks_per_child=1 if apart else None) as pool:
        waiting = {pool.submit(work, *job): name for name, job in left}
        console = Console(stderr=True)
        for done in track(as_completed(waiting), total=len(left), description=title, console=console):
            journal.add(waiting[done], done.result())
    return [journal.done[name] for name in names]


def seconds(call: Callable[[], Any], *, repeats: int, warm: int = 2) -> float:
    """Median wall time of `call` over `repeats`, after `warm` calls that compile and fill caches."""
    for _ in range(warm):
        call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def one_core() -> None:
    """Run on one core from here on, ours and the peers alike: threads that hop between cores drown short calls."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def need(package: str, extra: str) -> None:
    """Leave with one clear line when a peer is not installed."""
    import importlib.util

    if importlib.util.find_spec(package) is None:
        sys.exit(f"this benchmark compares with {package}: pip install 'cvflows[{extra}]'")


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    import jax

    return {
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "device": jax.devices()[0].platform,
    }


def main(name: str, run: Callable[[bool], dict[str, Any]], table: Callable[[dict[str, Any]], str]) -> None:
    """Parse the flags, run, print a table or JSON, and leave with 1 when `--check` finds a bar missed."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=run.__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bar is missed")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, under a minute")
    flags = parser.parse_args()
    start = time.perf_counter()
    figures = run(flags.quick)
    bars: list[Bar] = figures.pop("bars")
    report = {
        "benchmark": name,
        "quick": flags.quick,
        "seconds": round(time.perf_counter() - start, 1),
        "machine": machine(),
        **figures,
        "bars": [bar.as_json() for bar in bars],
    }
    if flags.json:
        print(json.dumps(report, indent=2))
    else:
        print(table(report))
        for bar in bars:
            sign = "≥" if bar.at_least else "≤"
            print(f"{'ok    ' if bar.ok else 'MISSED'} {bar.name}: {bar.value:.4g} {sign} {bar.bound:g}")
    if flags.check and not all(bar.ok for bar in bars):
        sys.exit(1)
