"""Suites: a grid of runs, started, watched, and resumed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from cvflows.files import exists
from cvflows.runs.config import RunConfig
from cvflows.runs.grid import Grid, Job, jobs_of
from cvflows.runs.launch import Ended
from cvflows.runs.mirror import Mirror
from cvflows.runs.progress import Status, read_status, summary
from cvflows.runs.store import RunFolder

OVER = ("complete", "failed")
LOOK_EVERY = 1.0
"""Seconds between looks at the folders of runs that go on."""


class Launcher(Protocol):
    """What starts jobs: `launch.Local` or `launch.Ray`."""

    def run(self, jobs: Sequence[Job], logs: Path, ended: Ended, tick: Callable[[], None]) -> None:
        """Do the jobs, say how each ended."""


@dataclass
class Suite:
    """A grid in a folder.

    What is complete is skipped, what was cut off goes on. A run that fails does not stop the others. With a `mirror`,
    the address of an object store, machines need share no folder.
    """

    grid: Grid
    out: Path
    mirror: str | None = None
    failures: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, Status] = field(default_factory=dict)
    preparing: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.out = self.out.resolve()
        self.jobs = jobs_of(self.grid, self.out, self.mirror)
        for job in self.jobs:
            if job.kind == "run":
                self._fetch(job)
                self.statuses[job.name] = self._look(job)

    def run(self, launcher: Launcher, tick: Callable[[Suite], None] | None = None) -> dict[str, Any]:
        """Do what is left, and say how it went."""
        left = [job for job in self.jobs if job.kind == "run" and self.statuses[job.name].state not in OVER]
        needed = {job.needs for job in left}
        first = [job for job in self.jobs if job.kind == "prepare" and job.name in needed]
        self.preparing = [job.name for job in first]
        began = looked = time.monotonic()

        def ended(job: Job, problem: str | None) -> None:
            if job.name in self.preparing:
                self.preparing.remove(job.name)
            if problem is not None:
                self.failures[job.name] = problem
            if job.kind == "run":
                self._fetch(job)
                self.statuses[job.name] = self._look(job)

        def look() -> None:
            nonlocal looked
            if time.monotonic() - looked < LOOK_EVERY:
                return
            looked = time.monotonic()
            for job in left:
                state = self.statuses[job.name].state
                if state in ("waiting", "running") or (state == "cut off" and RunFolder(job.folder).is_locked()):
                    self.statuses[job.name] = self._look(job)
            if tick is not None:
                tick(self)

        launcher.run([*first, *left], self.out / "logs", ended, look)
        return {**self.summary(), "seconds": round(time.monotonic() - began, 1)}

    def summary(self) -> dict[str, Any]:
        """Counts of states, and what failed."""
        states = summary(self.statuses.values())
        return {"out": str(self.out), "runs": len(self.statuses), "states": states, "failures": self.failures}

    def _fetch(self, job: Job) -> None:
        """From the mirror, what a report needs of a run that another machine may have trained."""
        if self.mirror is not None and not (job.folder / "final.json").exists():
            Mirror(self.mirror).pull(job.folder, job.folder.relative_to(self.out).as_posix(), light=True)

    def _look(self, job: Job) -> Status:
        """Where a run stands; one that has no folder waits."""
        config = job.data["config"]
        named = job.folder, config["task"], config["method"], config["seed"]
        if (problem := self.failures.get(job.name)) is not None:
            return Status(*named, "failed", 0, config["steps"], problem=problem)
        if not exists(job.folder / "config.json"):
            return Status(*named, "waiting", 0, config["steps"])
        status = read_status(job.folder)
        if status.state == "unreadable":
            return replace(status, task=config["task"], method=config["method"], seed=config["seed"])
        if RunFolder(job.folder).config().plan != RunConfig.from_json(config):
            problem = f"{job.folder} holds a run with other settings: choose another folder"
            self.failures[job.name] = problem
            return Status(*named, "failed", 0, config["steps"], math.nan, math.nan, problem)
        return status
