"""Artefacts: folders with a controller in C, the same as data, inputs and outputs to test against, and a README."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cvflows.controllers.building import Options, make_plan
from cvflows.controllers.c import header, source
from cvflows.controllers.parity import MAX_AGE, ORDINARY, PARITY, cases, play_observations
from cvflows.controllers.plan import Plan, number
from cvflows.controllers.python import FORMAT, Controller
from cvflows.controllers.readme import readme
from cvflows.controllers.status import Status
from cvflows.errors import ArgumentError
from cvflows.files import as_path, exists, make_folder, remove, write_atomically, write_record
from cvflows.runs.train import Trainer

DEFAULT = Options()
ONNX = "controller.onnx"


class Exported(NamedTuple):
    """What was written."""

    folder: Path
    plan: Plan
    statuses: Mapping[str, int]
    """Of the parity cases."""
    steps: int
    """Operations of the map, the check and the anchor."""
    files: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Figures for machines."""
        about = self.plan.about
        return {
            "out": str(self.folder),
            "task": about["task"],
            "method": about["method"],
            "map": about["map"],
            "certified": about["certified"],
            "fallback": self.plan.order[0],
            "anchor": self.plan.anchor is not None,
            "steps": self.steps,
            "files": sorted(self.files),
            "parity": dict(self.statuses),
        }


def export_c(
    trainer: Trainer,
    folder: str | Path,
    options: Options = DEFAULT,
    tick: Callable[[int], None] | None = None,
    *,
    onnx: bool = False,
) -> Exported:
    """Write the artefact of a trained policy, with `onnx` the file of that format too.

    `tick` is told how many of its five files are done.
    """
    path = as_path("out", folder)
    if exists(path) and (not path.is_dir() or (any(path.iterdir()) and not exists(path / "controller.json"))):
        raise ArgumentError("out", "a new folder, or one with an exported controller", path)
    tell = tick or (lambda _: None)
    played = play_observations(trainer)
    plan = make_plan(trainer, options, played)
    texts = [("controller.h", header(plan)), ("controller.c", source(plan)), ("README.md", readme(plan))]
    written = [(name, text.encode()) for name, text in texts]
    if onnx:
        from cvflows.controllers.onnx_file import write_onnx

        written.append((ONNX, write_onnx(plan, trainer)))
    else:
        remove(path / ONNX)  # of an earlier export, another policy's
    make_folder(path)
    for done, (name, content) in enumerate(written):
        write_atomically(path / name, content)
        tell(done + 1)
    statuses = _write_parity(trainer, plan, path, played)
    tell(4)
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in written}
    write_record(path / "controller.json", FORMAT, {**plan.as_data(), "sha256_of": hashes})
    tell(5)
    programs = [program for program in (plan.context, plan.action, plan.rows, plan.anchor) if program is not None]
    steps = sum(len(program.needed(program.results)) for program in programs)
    return Exported(path, plan, statuses, steps, (*hashes, "controller.json", "parity.json"))


def _write_parity(trainer: Trainer, plan: Plan, path: Path, played: np.ndarray) -> dict[str, int]:
    """What the controller does at many inputs, one after the other, beside the agent's own decisions."""
    seen, ages = cases(plan, played)
    controller = Controller(plan)
    controller.max_age = MAX_AGE
    decisions = [controller.act(one, age=age) for one, age in zip(seen, ages.tolist(), strict=True)]
    asked = [
        trainer.learner.decide_alone(one) if decision.status == Status.OK and np.abs(one).max() < ORDINARY else None
        for one, decision in zip(seen, decisions, strict=True)
    ]
    write_record(
        path / "parity.json",
        PARITY,
        {
            "max_age": MAX_AGE,
            "observations": [[number(value) for value in one] for one in seen.tolist()],
            "ages": ages.tolist(),
            "actions": [decision.action.tolist() for decision in decisions],
            "statuses": [int(decision.status) for decision in decisions],
            "used": [int(decision.used) for decision in decisions],
            "agent": [None if action is None else action.tolist() for action in asked],
        },
    )
    names = [decision.status.name.lower() for decision in decisions]
    return {name: names.count(name) for name in dict.fromkeys(names)}
