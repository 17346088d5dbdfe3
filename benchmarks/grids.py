"""Runs of grids as rows of a journal: what has a row is not trained again, wherever its folder is."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import ROOT
from benchmarks.journal import Journal

if TYPE_CHECKING:
    from cvflows.runs.grid import Grid

Key = tuple[str, str, int, int]
"""Task, method, steps and seed of a run."""


def folder_and_workers(name: str) -> tuple[Path, int]:
    """Where runs are, CVFLOWS_RUNS or runs/NAME, and how many are trained at a time, CVFLOWS_WORKERS or two."""
    return Path(os.environ.get("CVFLOWS_RUNS", ROOT / "runs" / name)), int(os.environ.get("CVFLOWS_WORKERS", "2"))


def counting(grids: Sequence[Grid], journal: Journal) -> list[dict[str, Any]]:
    """Figures of the runs that have a row with today's settings: rows of earlier presets do not count."""
    from cvflows.runs.grid import jobs_of

    configs = {job.name: job.config for job in jobs_of(grids, Path(), None) if job.config is not None}
    rows = [journal.find(journal.part((name,), config.as_json())) for name, config in configs.items()]
    return [row["figures"] for row in rows if row is not None]


def trained(
    grids: Sequence[Grid], folder: Path, workers: int, journal: Journal, known: Collection[Key] = ()
) -> list[dict[str, Any]]:
    """Figures of the grids' complete runs, after those were trained that have no row; with no workers, none is.

    Runs in `known` have figures elsewhere and are left out.
    """
    from cvflows.runs.launch import Local
    from cvflows.runs.suite import Suite
    from cvflows.terminal import live_runs

    suite = Suite(grids, folder)
    configs = {job.name: job.config for job in suite.jobs if job.config is not None}
    left = {
        name: config
        for name, config in configs.items()
        if (config.task, config.method, config.steps, config.seed) not in known
    }
    parts = {name: journal.part((name,), config.as_json()) for name, config in left.items()}
    rows = {name: journal.find(part) for name, part in parts.items()}
    if journal.only_list:
        print("\n".join(name for name, row in rows.items() if row is None))
        sys.exit()
    suite.jobs = [job for job in suite.jobs if job.config is None or (job.name in rows and rows[job.name] is None)]

    def collect() -> None:
        """Rows of the runs that are complete by now: their folders are not needed any more."""
        for job in suite.jobs:
            if job.name in rows and rows[job.name] is None and suite.statuses[job.name].state == "complete":
                rows[job.name] = journal.add(parts[job.name], *figures_of(job.folder))

    collect()
    if workers:
        with live_runs() as draw:

            def tick(suite: Suite) -> None:
                collect()
                draw(suite.statuses.values(), suite.preparing)

            suite.run(Local(workers), tick)
        collect()
    return [row["figures"] for row in rows.values() if row is not None]


def figures_of(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures of a complete run, and where they come from."""
    from cvflows.reports.records import load_runs
    from cvflows.runs.config import as_command
    from cvflows.tasks.catalogue import task

    (record,) = load_runs([folder]).records
    config, final, about = record.config, record.final, record.about
    assert final is not None
    found: dict[str, Any] = {"task": config.task, "method": config.method, "seed": config.seed}
    found |= {"steps": config.steps, "minutes": round(record.seconds / 60, 2)}
    if record.processor is not None:
        found["processor_minutes"] = round(record.processor / 60, 2)
    found |= {"final": final["final"], "training": final["training"], "metric": record.metric}
    steps, returns = (record.evaluations[name].tolist() for name in ("step", "return"))
    found["curve"] = list(zip(steps, returns, strict=True))
    machine = {name: about.get(name) for name in ("cores", "processor", "python", "jax")}
    command = as_command(config, task(config.task).family)
    return found, {"commit": about.get("commit"), "command": command, "machine": machine}
