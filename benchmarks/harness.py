"""What every benchmark shares: flags, timing, bars, where figures come from, and one JSON object at the end.

A benchmark is a function `run(quick) -> dict` that returns its figures with a list of `Bar`s under "bars". One that
takes many minutes is `run(quick, journal)` and keeps its parts in the `Journal`, so that it can be cut off and started
again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
CODE = ("src", "benchmarks", "pyproject.toml")
"""What figures depend on: results and documents may change while a benchmark runs."""


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

    from cvflows.runs.identity import processor

    return {
        "cores": os.cpu_count(),
        "processor": processor(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "device": jax.devices()[0].platform,
    }


def git(root: Path, *words: str) -> str | None:
    """What git says about a folder, None where it says nothing."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commit_of(root: Path) -> dict[str, Any]:
    """The commit that is checked out in `root`, and whether the code differs from it; None without a checkout."""
    top = git(root, "rev-parse", "--show-toplevel")
    head = git(root, "rev-parse", "HEAD")
    if top is None or head is None or Path(top).resolve() != root.resolve():
        return {"commit": None, "dirty": None}
    return {"commit": head, "dirty": bool(git(root, "status", "--porcelain", "--", *CODE))}


def command() -> str:
    """The command that is running, with the settings that it reads from the environment."""
    words = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("CVFLOWS_")]
    called = sys.orig_argv[1:] if "-m" in sys.orig_argv else [Path(sys.argv[0]).name, *sys.argv[1:]]
    return shlex.join([*words, "python", *called])


@cache
def code_and_machine() -> dict[str, Any]:
    """Those of this process. Taken once: code that changes on the disk later does not run here."""
    import cvflows

    here = Path(cvflows.__file__).resolve().is_relative_to(ROOT)  # else the commit says nothing about what runs
    commit = commit_of(ROOT) if here else {"commit": None, "dirty": None}
    return {**commit, "version": cvflows.__version__, "command": command(), "machine": machine()}


def provenance() -> dict[str, Any]:
    """Where a figure comes from: commit, whether the code was changed since, version, command, machine and time."""
    return {**code_and_machine(), "date": datetime.now(UTC).isoformat(timespec="seconds")}


def constants(run: Callable[..., Any]) -> dict[str, Any]:
    """The constants of a benchmark's module that can be written as JSON: what its figures depend on beside the code."""
    found = {}
    for name, value in vars(sys.modules[run.__module__]).items():
        if name.isupper() and name != "MODULE":
            try:
                found[name] = json.loads(json.dumps(value, sort_keys=True))
            except (TypeError, ValueError):
                continue
    return found


def main(
    name: str,
    run: Callable[..., dict[str, Any]],
    table: Callable[[dict[str, Any]], str],
    *,
    revision: int = 1,
    parts: str | None = None,
) -> None:
    """Parse the flags, run, print a table or JSON, and leave with 1 when `--check` finds a bar missed.

    `revision` is raised when what a benchmark measures changes, so that older rows of its journal no longer count.
    `parts` names the figures that its journal holds; `run` then takes the journal.
    """
    from benchmarks.journal import Journal
    from cvflows.runs.config import fingerprint

    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=run.__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bar is missed")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, about a minute")
    kept = f"{name}.json" if parts is None else f"{name}.json and, part by part, {name}.jsonl"
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=f"keep {kept} there")
    if parts is not None:
        parser.add_argument("--missing", action="store_true", help="list the parts without a row in --out; run nothing")
    flags = parser.parse_args()
    if flags.quick and flags.out is not None:
        parser.error("--out keeps measurements, and --quick makes none that are worth keeping")
    start = time.perf_counter()
    if parts is None:
        figures = run(flags.quick)
    else:
        folder = flags.out or (RESULTS if flags.missing else None)
        path = None if folder is None else folder / f"{name}.jsonl"
        figures = run(flags.quick, Journal(path, name, revision, only_list=flags.missing))
    bars: list[Bar] = figures.pop("bars")
    report = {
        "benchmark": name,
        "revision": revision,
        "quick": flags.quick,
        "fingerprint": fingerprint({"benchmark": name, "quick": flags.quick, "constants": constants(run)}),
        **provenance(),
        "seconds": round(time.perf_counter() - start, 1),
        **figures,
        "bars": [bar.as_json() for bar in bars],
    }
    if flags.out is not None:
        write_report(report, flags.out, parts)
    if flags.json:
        print(json.dumps(report, indent=2))
    else:
        print(table(report))
        for bar in bars:
            sign = "≥" if bar.at_least else "≤"
            print(f"{'ok    ' if bar.ok else 'MISSED'} {bar.name}: {bar.value:.4g} {sign} {bar.bound:g}")
    if flags.check and not all(bar.ok for bar in bars):
        sys.exit(1)


def write_report(report: dict[str, Any], folder: Path, parts: str | None) -> None:
    """`folder`/NAME.json, without what the journal beside it holds."""
    folder.mkdir(parents=True, exist_ok=True)
    name = report["benchmark"]
    kept = {key: value for key, value in report.items() if key != parts}
    kept |= {} if parts is None else {"rows": f"{name}.jsonl"}
    (folder / f"{name}.json").write_text(json.dumps(kept, indent=2) + "\n")
