"""Contenders that take turns: each waits in a process of its own, then runs a slice of steps when asked.

On a machine whose speed drifts, figures of one contender after the other say little. Here slices of a few seconds
alternate, and a ratio is the median over rounds of the ratios within a round.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Advance = Callable[[int], None]
"""Takes that many steps."""


class Contender:
    """A process of `module` that prepared the maker and arguments in `what`, limited to some threads.

    `folder`: another checkout, whose code it runs.
    """

    def __init__(self, module: str, what: list[Any], threads: int, folder: Path | None = None) -> None:
        from cvflows.threads import variables

        code = {} if folder is None else {"PYTHONPATH": str(folder / "src")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, "--contender", json.dumps(what)],
            env={**os.environ, **variables(threads), **code},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                return json.loads(line[len(ANSWER) :])
        raise RuntimeError("a contender died: its error is above")

    def seconds(self, steps: int) -> float:
        """How long it took for that many steps."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """End the process."""
        self._process.communicate("")


ANSWER = "contender: "


def serve(makers: Mapping[str, Callable[..., Advance]]) -> bool:
    """In a contender's process: prepare, then time slices until the input ends. False where this is not one."""
    if "--contender" not in sys.argv:
        return False
    name, *arguments = json.loads(sys.argv[-1])
    advance = makers[name](*(tuple(value) if isinstance(value, list) else value for value in arguments))
    print(f"{ANSWER}0", flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        advance(int(line))
        print(f"{ANSWER}{time.perf_counter() - began}", flush=True)
    return True


def take_turns(
    module: str,
    group: Mapping[str, list[Any]],
    steps: int,
    rounds: int,
    threads: int = 1,
    folders: Mapping[str, Path] | None = None,
) -> Rounds:
    """Steps per second of every contender of a group, round by round; those in `folders` run another checkout."""
    elsewhere = folders or {}
    contenders = {name: Contender(module, what, threads, elsewhere.get(name)) for name, what in group.items()}
    found: Rounds = {name: [] for name in group}
    for turn in range(rounds):
        for name, contender in contenders.items():
            found[name].append(steps / contender.seconds(steps))
        speeds = ", ".join(f"{name} {values[-1]:.0f}" for name, values in found.items())
        print(f"round {turn + 1} of {rounds}, steps/s: {speeds}", file=sys.stderr, flush=True)
    for contender in contenders.values():
        contender.close()
    return found


Rounds = dict[str, list[float]]


def ratio(found: Rounds, fast: str, slow: str) -> float:
    """Median over the rounds of how much faster one contender was."""
    return statistics.median(a / b for a, b in zip(found[fast], found[slow], strict=True))
