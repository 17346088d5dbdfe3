"""Launchers: jobs in processes of this machine, one per core, or on a Ray cluster.

A launcher starts a job once the preparation it needs is done, and reports how each ended. Jobs resume from their
checkpoints, so a launcher stores nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, TypedDict

from cvflows.errors import MissingExtraError, dimension
from cvflows.files import make_folder
from cvflows.runs.grid import Job, JobData
from cvflows.threads import variables

if TYPE_CHECKING:  # an extra
    from ray import ObjectRef

Ended = Callable[[Job, str | None], None]
"""Called with a job and what went wrong, or None."""
PAUSE = 0.2
"""Seconds between looks at the processes."""
STOP_SECONDS = 10.0
"""Seconds that a process may take to end before it is killed."""


class Message(TypedDict):
    """What a process is given: the kind of its job and the data."""

    kind: Literal["prepare", "run"]
    data: JobData


class TerminatedError(KeyboardInterrupt):
    """A signal other than an interrupt asked this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP raise `TerminatedError` here, as SIGINT raises KeyboardInterrupt, so that jobs are stopped."""

    def stop(number: int, _: object) -> None:
        raise TerminatedError(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _one_thread() -> dict[str, str]:
    """Environment variables of the processes, which draw nothing on a screen."""
    return {**variables(1), "MPLBACKEND": "Agg"}


class Local:
    """Single-threaded processes on this machine: two with one thread each are faster than one with two."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = dimension("workers", (os.cpu_count() or 1) if workers is None else workers, most=4096)
        self.running: dict[str, tuple[Job, subprocess.Popen[bytes], IO[bytes]]] = {}

    def run(self, jobs: Sequence[Job], logs: Path, ended: Ended, tick: Callable[[], None]) -> None:
        """Do the jobs; `tick` is called a few times a second. An interrupt or SIGTERM stops the running ones."""
        make_folder(logs)
        left, pending = list(jobs), {job.name for job in jobs}
        with ended_by_signals():
            self._run(left, pending, logs, ended, tick)

    def _run(self, left: list[Job], pending: set[str], logs: Path, ended: Ended, tick: Callable[[], None]) -> None:
        try:
            while left or self.running:
                ready = [job for job in left if job.needs not in pending]
                for job in ready[: self.workers - len(self.running)]:
                    left.remove(job)
                    self._start(job, logs)
                for job, process, log in list(self.running.values()):
                    if process.poll() is not None:
                        log.close()
                        del self.running[job.name]
                        pending.discard(job.name)
                        ended(job, _problem(process.returncode, logs, job))
                tick()
                time.sleep(PAUSE)
        finally:
            self._stop()

    def _start(self, job: Job, logs: Path) -> None:
        log = log_file(logs, job).open("wb")
        command = [sys.executable, "-m", "cvflows.runs.worker", json.dumps(message_of(job))]
        # in a session of its own, so that an interrupt reaches only the launcher, which then ends the job
        settings = {**os.environ, **_one_thread()}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=settings, start_new_session=True)
        self.running[job.name] = job, process, log

    def _stop(self) -> None:
        for _, process, _ in self.running.values():
            process.terminate()
        for _, process, log in self.running.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.close()
        self.running.clear()


class Ray:
    """Tasks of a Ray cluster. `out` must be a folder that all nodes share, or there must be a mirror."""

    def __init__(self, address: str | None = None, cpus: float = 1.0, retries: int = 3) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtraError("the launcher ray", "the package ray", "ray") from None
        self.ray, self.address, self.cpus = ray, address, cpus
        self.retries = dimension("retries", retries, least=0, most=10**6)

    def run(self, jobs: Sequence[Job], logs: Path, ended: Ended, tick: Callable[[], None]) -> None:
        """Do the jobs. A job whose node dies is started again elsewhere, up to `retries` times."""
        ray = self.ray
        make_folder(logs)
        began_here = not ray.is_initialized()
        if began_here:
            ray.init(address=self.address, log_to_driver=False, include_dashboard=False)
        remote = ray.remote(num_cpus=self.cpus, max_retries=self.retries, max_calls=1)(_on_ray)
        remote = remote.options(runtime_env={"env_vars": _one_thread()})
        references: dict[ObjectRef[str | None], Job] = {}
        by_name: dict[str, ObjectRef[str | None]] = {}
        try:
            for job in jobs:
                log = str(log_file(logs, job).resolve())
                by_name[job.name] = remote.remote(message_of(job), log, by_name.get(job.needs or ""))
                references[by_name[job.name]] = job
            while references:
                done, _ = ray.wait(list(references), timeout=PAUSE)
                for reference in done:
                    ended(references.pop(reference), self._outcome(reference))
                tick()
        finally:
            for reference in references:
                ray.cancel(reference, force=True)
            if began_here:
                ray.shutdown()

    def _outcome(self, reference: ObjectRef[str | None]) -> str | None:
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            return str(error).strip().splitlines()[0]


def message_of(job: Job) -> Message:
    """What the process of a job is given."""
    return {"kind": job.kind, "data": job.data}


def _on_ray(job: Message, log: str, _: object) -> str | None:
    """A job, in a process that Ray started; what went wrong is a result, so that only lost nodes are retried."""
    import traceback

    from cvflows.runs.worker import work

    scratch = Path(tempfile.gettempdir()) / "cvflows" / hashlib.sha256(job["data"]["out"].encode()).hexdigest()[:12]
    try:
        work(job["kind"], job["data"], scratch)
    except Exception as error:
        if Path(log).parent.exists():
            Path(log).write_text(traceback.format_exc())
        return f"{type(error).__name__}: {error}"
    return None


def _problem(code: int, logs: Path, job: Job) -> str | None:
    """What went wrong in a process that ended with `code`; None: nothing."""
    if code >= 0:
        return last_line(logs, job) if code else None
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}{' (out of memory?)' if -code == signal.SIGKILL else ''}"


def log_file(logs: Path, job: Job) -> Path:
    """The file with the output of a job."""
    return logs / f"{job.name.replace(' ', '-')}.log"


def last_line(logs: Path, job: Job) -> str:
    """The last line of a job's output."""
    lines = log_file(logs, job).read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "ended without output"
