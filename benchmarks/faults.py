"""Attacks on runs: kills at any moment, damage to any file, hostile command lines and arguments. Each by the hundred.

from benchmarks.faults import kills, damage, fuzz

kills(500, seed=0)    # {"tried", "identical"}: does a run that was killed end as if it had not been?
damage(1000, seed=0)  # {"tried", "refused", "harmless", "silently_wrong", "tracebacks"}
fuzz(10_000, seed=0)  # {"tried", "tracebacks"}
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.damage import damage as damage
from benchmarks.disk import FAULTS, FaultyDisk, KilledError
from benchmarks.fuzz import fuzz as fuzz
from benchmarks.tiny import contents, finish, quick

REAL = 50
"""One in this many kills is a SIGKILL of a process."""
METHODS, WITH_MAP = ("DDPG", "SAC+CVFlow"), 8
"""What is run; every eighth run has a map."""
AGAIN = 0.3
"""How often a run that was killed is killed again."""


def kills(count: int, seed: int = 0) -> dict[str, Any]:
    """Kill runs at random changes of the disk, one in fifty by SIGKILL; how many then end byte for byte the same."""
    rng = np.random.default_rng(seed)
    real = max(1, count // REAL)
    with tempfile.TemporaryDirectory() as folder, quick():
        root = Path(folder)
        whole = {method: unbroken(root / method, method) for method in METHODS[: 1 if count < WITH_MAP else 2]}
        found = 0
        for case in range(count - real):
            method = METHODS[case % WITH_MAP == WITH_MAP - 1]
            found += _killed(root / "run", method, rng, *whole[method])
        found += sum(_really_killed(root / "child", rng, whole[METHODS[0]][0]) for _ in range(real))
    return {"tried": count, "identical": found}


def unbroken(folder: Path, method: str = METHODS[0]) -> tuple[dict[str, bytes], int]:
    """What a run ends as when nothing fails, and how often it changes the disk."""
    with FaultyDisk().installed() as disk:
        finish(folder, method)
    return contents(folder), len(disk.calls)


def killed_at(folder: Path, at: int, fault: Any, seed: int = 0, method: str = METHODS[0]) -> bool:
    """Run until the fault; whether there was one."""
    with FaultyDisk(at, fault, seed).installed() as disk:
        try:
            finish(folder, method)
        except (KilledError, OSError):
            return True
    return len(disk.calls) > at


def _killed(folder: Path, method: str, rng: np.random.Generator, whole: dict[str, bytes], changes: int) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    while True:
        fault = FAULTS[int(rng.integers(len(FAULTS)))]
        killed_at(folder, int(rng.integers(changes)), fault, int(rng.integers(2**31)), method)
        if rng.random() > AGAIN:
            break
    finish(folder, method)
    return contents(folder) == whole


CHILD = "import sys; from benchmarks.faults import child; child(sys.argv[1])"


def child(folder: str) -> None:
    """What the process does that is killed: the run, then nothing."""
    with quick():
        finish(Path(folder), tick=lambda trainer: time.sleep(0.002))


def _really_killed(folder: Path, rng: np.random.Generator, whole: dict[str, bytes]) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(folder)], env=dict(os.environ))
    while process.poll() is None and not (folder / "config.json").exists():
        time.sleep(0.002)
    time.sleep(float(rng.uniform(0, 1.0)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    finish(folder)
    return contents(folder) == whole
