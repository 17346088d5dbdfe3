"""Whether an artefact keeps its promise: compiled, repeated, and tried on inputs that are meant to break it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from cvflows.constraints.judge import judge_of
from cvflows.constraints.spec import rebuild
from cvflows.controllers.compiling import Library, compile_library
from cvflows.controllers.parity import ORDINARY, Parity, adversarial, perturbed, read_parity
from cvflows.controllers.plan import TOLERANCE, Plan
from cvflows.controllers.python import FORMAT, Controller
from cvflows.controllers.status import Status
from cvflows.errors import StoreError, dimension
from cvflows.files import as_path, exists, read_bytes, read_record

CLOSE = 1e-5
"""How far actions may be from the agent's, and C from Python, at ordinary inputs."""
CHUNK = 2000
ONNX = "controller.onnx"
MOST_SOURCE = 1 << 28
Rows = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From contexts (n, context_dim) and actions (n, dim) to the largest row of each."""


@dataclass(frozen=True)
class Report:
    """What was found.

    `forbidden`: actions with a status other than UNSAFE and a row above 1e-6; `parity` and `agent`: the largest
    difference of an action entry from the recorded ones of the controller and of the agent; `python`: from
    `cv.Controller` at ordinary inputs; `statuses_differ`: from `cv.Controller`, anywhere.
    """

    artefact: str
    inputs: int
    forbidden: int
    unsafe: int
    fallbacks: int
    parity: float
    agent: float
    python: float
    statuses_differ: int
    judged_by: str
    state_bytes: int
    onnx: float | None
    """The largest difference of the ONNX file's actions from C's; None where there is none, or no onnxruntime."""

    @property
    def problem(self) -> str | None:
        """What is wrong, in words; None where nothing is."""
        if self.forbidden:
            return f"{self.forbidden} of {self.inputs:,} actions are forbidden"
        if self.statuses_differ:
            return f"{self.statuses_differ} statuses differ from those of Python"
        worst = max(self.parity, self.agent, self.python, self.onnx or 0.0)
        return None if worst <= CLOSE else f"actions differ by {worst:.2g}, more than {CLOSE:g}"

    def as_json(self) -> dict[str, object]:
        """Figures for machines."""
        return {**asdict(self), "ok": self.problem is None}


def check(folder: str | Path, count: int = 100_000, tick: Callable[[int], None] | None = None) -> Report:
    """Compile an artefact, repeat its parity cases, and try `count` inputs, half of them adversarial."""
    path = as_path("artefact", folder)
    dimension("count", count, most=10**9)
    controller = Controller.load(path)
    parity = read_parity(path, controller.plan)
    _check_sources(path)
    with tempfile.TemporaryDirectory() as temporary:
        library = Library(compile_library(path, Path(temporary)), parity.max_age)
        report = _tried(controller, library, parity, count, str(path), tick or (lambda _: None))
        return replace(report, onnx=_onnx_difference(path, library, parity))


def _check_sources(path: Path) -> None:
    """The code is what was exported: else a check of it says nothing about the data beside it."""
    hashes = read_record(path / "controller.json", FORMAT).get("sha256_of")
    for name in ("controller.c", "controller.h", *([ONNX] if exists(path / ONNX) else [])):
        found = hashlib.sha256(read_bytes(path / name, MOST_SOURCE)).hexdigest()
        if not isinstance(hashes, dict) or hashes.get(name) != found:
            raise StoreError(path / name, "was changed after it was exported")


def _tried(
    controller: Controller, library: Library, parity: Parity, count: int, name: str, tick: Callable[[int], None]
) -> Report:
    repeated = library.run(parity.observations, parity.ages)
    differ = int((repeated.statuses != parity.statuses).sum() + (repeated.used != parity.used).sum())
    pairs = zip(repeated.actions, parity.agent, strict=True)
    agent = max((float(np.abs(ours - theirs).max()) for ours, theirs in pairs if theirs is not None), default=0.0)
    played = parity.observations[(parity.statuses == Status.OK) & (np.abs(parity.observations) < ORDINARY).all(axis=1)]
    library.max_age = 0.0
    library.reset()
    rows, judged_by = _rows(controller.plan)
    totals, python, done = np.zeros(3, int), 0.0, 0
    sources = [perturbed(played, CHUNK, seed=11), adversarial(played, CHUNK, seed=12)]
    read = controller.plan.context.define("context", ieee=True)
    while done < count:
        ordinary = (done // CHUNK) % 2 == 0
        seen = next(sources[0 if ordinary else 1])[: count - done]
        run = library.run(seen)
        with np.errstate(all="ignore"):
            contexts = np.array([read(list(one)) for one in seen.astype(float)], float).reshape(len(seen), -1)
        promised = run.statuses != Status.UNSAFE
        allowed = rows(contexts[promised], run.actions[promised]) <= TOLERANCE
        totals += [int((~allowed).sum()), int((~promised).sum()), int((run.statuses != Status.OK).sum())]
        decisions = [controller.act(one) for one in seen]
        differ += sum(one.status != status for one, status in zip(decisions, run.statuses.tolist(), strict=True))
        if ordinary:
            python = max(python, float(np.abs(np.stack([one.action for one in decisions]) - run.actions).max()))
        done += len(seen)
        tick(done)
    return Report(
        artefact=name,
        inputs=done,
        forbidden=int(totals[0]),
        unsafe=int(totals[1]),
        fallbacks=int(totals[2]),
        parity=float(np.abs(repeated.actions - parity.actions).max()),
        agent=agent,
        python=python,
        statuses_differ=differ,
        judged_by=judged_by,
        state_bytes=library.state_size,
        onnx=None,
    )


def _onnx_difference(path: Path, library: Library, parity: Parity) -> float | None:
    if not exists(path / ONNX):
        return None
    try:
        import onnxruntime
    except ImportError:
        return None
    content = read_bytes(path / ONNX, MOST_SOURCE)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    seen = parity.observations[[action is not None for action in parity.agent]]
    library.reset()
    run = library.run(seen)
    actions, allowed = session.run(None, {"observation": seen})
    if not np.array_equal(allowed, run.statuses == Status.OK):
        return float("inf")
    return float(np.abs(actions - run.actions).max())


def _rows(plan: Plan) -> tuple[Rows, str]:
    """The largest row by JAX in float64, from the constraint as data; by the written program where it is a function."""
    data = plan.about.get("constraint")
    if isinstance(data, dict):
        judge = judge_of(rebuild(data))
        return lambda x, a: judge.many(x, a).max(axis=1, initial=-1.0), "the constraint, in JAX"
    written = plan.rows.define("rows", ieee=True)

    def largest(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        pairs = zip(x, a.astype(float), strict=True)
        with np.errstate(all="ignore"):
            return np.array([max(written(list(context), list(action))) for context, action in pairs])

    return largest, "its written rows, in Python"
