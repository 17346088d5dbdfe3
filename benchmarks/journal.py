"""Parts of a benchmark that takes long, one JSON line each: what is finished is not measured again.

A row is {"part", "fingerprint", "revision", "commit", …, "figures"}. It counts when its fingerprint and revision are
those that the part has now. Commit, version and machine are recorded and do not decide: most commits change no figure,
and a benchmark whose figures they do change raises its revision.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.harness import provenance

Row = dict[str, Any]
Job = tuple[Any, ...]
KEYS = ("part", "fingerprint", "revision", "commit", "figures")
"""What every row has; a fingerprint of None never counts."""

SOURCE = ("part_fingerprint", "commit", "repeatable")
"""Columns of a table that say which row of a journal a line is from."""


def source(row: Row) -> dict[str, str]:
    """Those columns; empty: not known. A row is repeatable unless it says otherwise."""
    values = row["fingerprint"] or "", row["commit"] or "", "no" if row.get("repeatable") is False else "yes"
    return dict(zip(SOURCE, values, strict=True))


@dataclass(frozen=True)
class Part:
    """A piece of work: its name in the journal, the arguments, and a hash of what determines the figures."""

    name: str
    job: Job
    fingerprint: str


class Journal:
    """Rows of finished parts in the file `path`; without one, nothing is kept.

    With `only_list`, the parts that have no row are printed and none is run.
    """

    def __init__(self, path: Path | None, benchmark: str, revision: int = 1, *, only_list: bool = False) -> None:
        self.path, self.benchmark, self.revision, self.only_list = path, benchmark, revision, only_list
        self.rows: list[Row] = []
        self._torn: tuple[int, int] | None = None  # where the rows end, and the file
        if path is not None and path.exists():
            self.rows, end = read_rows(path)
            self._torn = (end, path.stat().st_size)

    def part(self, job: Job, config: Mapping[str, Any] | None) -> Part:
        """A job's name and fingerprint: of its arguments and of the `config` that they lead to."""
        from cvflows.runs.config import fingerprint

        arguments = {"benchmark": self.benchmark, "arguments": job, "config": config}
        return Part(" ".join(map(str, job)), job, fingerprint(arguments))

    def find(self, part: Part) -> Row | None:
        """The last row of a part that still counts."""
        wanted = (part.name, part.fingerprint, self.revision)
        rows = (row for row in reversed(self.rows) if (row["part"], row["fingerprint"], row["revision"]) == wanted)
        return next(rows, None)

    def why_missing(self, part: Part) -> str:
        """Why a part has no row that counts."""
        rows = [row for row in self.rows if row["part"] == part.name]
        if not rows:
            return "not run"
        row = rows[-1]
        if row.get("reason"):
            return str(row["reason"])
        return "its settings have changed" if row["revision"] == self.revision else "of an earlier revision"

    def add(self, part: Part, figures: dict[str, Any], origin: Mapping[str, Any] | None = None) -> Row:
        """Write a finished part down, with its provenance: that of this process, but for what `origin` says."""
        origin = provenance() | dict(origin or {})
        row = {"part": part.name, "fingerprint": part.fingerprint, "revision": self.revision, **origin}
        row["figures"] = figures
        self.rows.append(row)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._repair(self.path)
            with self.path.open("ab") as file:
                file.write((json.dumps(row) + "\n").encode())
        return row

    def _repair(self, path: Path) -> None:
        """Before the first row is written, remove what a killed process left half written."""
        if self._torn is None:
            return
        (end, size), self._torn = self._torn, None
        with path.open("r+b") as file:
            if file.seek(0, os.SEEK_END) != size:
                return  # another process has written since
            file.truncate(end)
            file.seek(max(end - 1, 0))
            if file.read(1) not in (b"", b"\n"):
                file.write(b"\n")


def read_rows(path: Path) -> tuple[list[Row], int]:
    """The rows of a journal, and where they end in bytes.

    A last line that cannot be read was cut off by a kill: it is left out. Any other is an error that names it.
    """
    rows: list[Row] = []
    end = 0
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            absent = [key for key in KEYS if key not in row] if isinstance(row, dict) else list(KEYS)
            if absent:
                raise ValueError(f"no {', '.join(absent)}")
        except ValueError as error:
            if number == len(lines):
                print(f"{path}, line {number}: cut off, left out", file=sys.stderr)
                break
            sys.exit(f"{path}, line {number}: not a row of a journal: {error}")
        rows.append(row)
        end += len(line)
    return rows, end


def run_parts(
    work: Callable[..., dict[str, Any]],
    jobs: Sequence[Job],
    title: str,
    journal: Journal,
    *,
    config: Callable[..., Mapping[str, Any]] | None = None,
    apart: bool = False,
) -> list[Row]:
    """Rows of `work(*job)` for every job, skipping those that the journal holds.

    `config(*job)` is what else the figures depend on, such as a run's settings. In single-threaded processes, as many
    as CVFLOWS_WORKERS says, two by default; with `apart`, a new one for each job.
    """
    from rich.console import Console
    from rich.progress import track

    from cvflows.threads import variables

    os.environ.update(variables(1))
    parts = [journal.part(job, None if config is None else config(*job)) for job in jobs]
    done = {part.name: row for part in parts if (row := journal.find(part)) is not None}
    left = [part for part in parts if part.name not in done]
    if journal.only_list:
        for part in left:
            print(f"{part.name}: {journal.why_missing(part)}")
        sys.exit()
    if done:
        print(skipped(list(done.values()), len(parts)), file=sys.stderr, flush=True)
    failed: dict[str, BaseException] = {}  # the others are worth keeping
    workers = int(os.environ.get("CVFLOWS_WORKERS", "2"))
    with ProcessPoolExecutor(workers, get_context("spawn"), max_tasks_per_child=1 if apart else None) as pool:
        waiting = {pool.submit(work, *part.job): part for part in left}
        console = Console(stderr=True)
        for future in track(as_completed(waiting), total=len(left), description=title, console=console):
            part, error = waiting[future], future.exception()
            if error is None:
                done[part.name] = journal.add(part, future.result())
            else:
                failed[part.name] = error
    if failed:
        names = ", ".join(f"{name} ({error!r})" for name, error in failed.items())
        raise RuntimeError(f"{len(failed)} of {len(left)} parts failed: {names}") from next(iter(failed.values()))
    return [done[part.name] for part in parts]


def skipped(rows: Sequence[Row], total: int) -> str:
    """What is not measured again, and from which commits it is."""
    counts = Counter(row["commit"] and row["commit"][:12] + "+" * bool(row.get("dirty")) for row in rows)
    words = [f"{count} of commit {name or 'unknown'}" for name, count in counts.items()]
    names = "\n".join(f"  {row['part']}" for row in rows)
    return f"skipping {len(rows)} of {total} parts, {', '.join(words)}:\n{names}"
