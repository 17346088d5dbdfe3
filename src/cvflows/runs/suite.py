"""Suites: a grid of runs, started, watched, and resumed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NotRequired, Protocol, TypedDict

from cvflows.figures import Status
from cvflows.files import exists
from cvflows.runs.folder import RunFolder
from cvflows.runs.grid import Grid, Job, jobs_of
from cvflows.runs.launch import Ended
from cvflows.runs.mirror import Mirror
from cvflows.runs.progress import read_status, summary

logger = logging.getLogger(__name__)
OVER = ("complete", "failed")
LOOK_EVERY = 1.0
"""Seconds between looks at the folders of runs in progress."""


class SuiteFigures(TypedDict):
    """How a suite went: where, how many runs, how many in which state, and what failed."""

    out: str
    runs: int
    states: dict[str, int]
    failures: dict[str, str]
    seconds: NotRequired[float]
    interrupted: NotRequired[bool]


class Launcher(Protocol):
    """What starts jobs: `launch.Local` or `launch.Ray`."""

    def run(self, jobs: Sequence[Job], logs: Path, ended: Ended, tick: Callable[[], None]) -> None:
        """Do the jobs; call `ended` after each."""


def in_order(runs: Sequence[Job], preparations: Sequence[Job]) -> list[Job]:
    """The runs, each preparation just before the first run that needs it: there are results early."""
    waiting = {job.name: job for job in preparations}
    ordered: list[Job] = []
    for job in runs:
        if job.needs in waiting:
            ordered.append(waiting.pop(job.needs))
        ordered.append(job)
    return ordered


@dataclass
class Suite:
    """Grids in a folder.

    Complete runs are skipped, interrupted ones are resumed. A run that fails does not stop the others. With a `mirror`,
    the address of an object store, machines need not share a folder.
    """

    grids: Sequence[Grid]
    out: Path
    mirror: str | None = None
    failures: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, Status] = field(default_factory=dict)
    preparing: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.out = self.out.resolve()
        self.jobs = jobs_of(self.grids, self.out, self.mirror)
        for job in self.jobs:
            if job.kind == "run":
                self._fetch(job)
                self.statuses[job.name] = self._look(job)

    def run(self, launcher: Launcher, tick: Callable[[Suite], None] | None = None) -> SuiteFigures:
        """Do the runs that are not complete; the figures of the suite."""
        left = [job for job in self.jobs if job.kind == "run" and self.statuses[job.name].state not in OVER]
        ordered = in_order(left, [job for job in self.jobs if job.kind == "prepare"])
        self.preparing = [job.name for job in ordered if job.kind == "prepare"]
        began = looked = time.monotonic()

        def ended(job: Job, problem: str | None) -> None:
            if job.name in self.preparing:
                self.preparing.remove(job.name)
            logger.info("%s ended: %s", job.name, problem or "no problem")
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

        launcher.run(ordered, self.out / "logs", ended, look)
        return {**self.summary(), "seconds": round(time.monotonic() - began, 1)}

    def summary(self) -> SuiteFigures:
        """Counts of states, and what failed."""
        states = summary(self.statuses.values())
        return {"out": str(self.out), "runs": len(self.statuses), "states": states, "failures": self.failures}

    def _fetch(self, job: Job) -> None:
        """From the mirror, what a report needs of a run that another machine may have trained."""
        if self.mirror is not None and not (job.folder / "final.json").exists():
            Mirror(self.mirror).pull(job.folder, job.folder.relative_to(self.out).as_posix(), light=True)

    def _look(self, job: Job) -> Status:
        """The status of a run; one that has no folder is waiting."""
        config = job.config
        assert config is not None
        waiting = Status(job.folder, config.task, config.method, config.seed, "waiting", 0, config.steps)
        if (problem := self.failures.get(job.name)) is not None:
            return replace(waiting, state="failed", problem=problem)
        if not exists(job.folder / "config.json"):
            return waiting
        status = read_status(job.folder)
        if status.state == "unreadable":
            return replace(status, task=config.task, method=config.method, seed=config.seed)
        if RunFolder(job.folder).config().plan != config:
            problem = f"{job.folder} holds a run with other settings: choose another folder"
            self.failures[job.name] = problem
            return replace(waiting, state="failed", problem=problem)
        return status
