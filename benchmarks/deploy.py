"""How long does one decision of an exported controller take, and does any forbidden action leave it?

C is timed inside C, call by call, so that the way from Python into it does not count. Beside it, in the same process,
the controller in Python without JAX, `agent.predict`, and, where they are installed, onnxruntime and
Stable-Baselines3's `predict` on the bare policy. Networks are 64×64 and untrained, as `PPO+CVFlow` has them; actions
pass through ray maps and the check. Then decisions of the C controller at inputs near and far, every second chunk
adversarial, are judged in float64.
"""

from __future__ import annotations

import importlib.util
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from benchmarks.harness import Bar, main

TASKS = ("HC+O", "W+O+S", "Ball3D", "17 joints")
JOINTS = 17
POWER = 20.0
HIDDEN = (64, 64)
CALLS = 20_000
PYTHON_CALLS = 3000
DECISIONS = 10**7
CHUNK = 20_000
C_P99 = 15e-6
ONNX_P50 = 100e-6
KEYS = ("c", "onnx", "python", "predict", "sb3")
TIMER = """
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <time.h>
#include "controller.h"

int main(void)
{
    cv_state state;
    float obs[CV_OBS], action[CV_ACT];
    struct timespec began, ended;
    cv_init(&state);
    while (fread(obs, sizeof obs, 1, stdin) == 1) {
        clock_gettime(CLOCK_MONOTONIC, &began);
        (void)cv_act(&state, obs, action);
        clock_gettime(CLOCK_MONOTONIC, &ended);
        printf("%ld\\n", (ended.tv_sec - began.tv_sec) * 1000000000L + ended.tv_nsec - began.tv_nsec);
    }
    return 0;
}
"""


class Joints(gymnasium.Env[np.ndarray, np.ndarray]):
    """Seventeen joints with damped velocities: an observation of positions and velocities."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2 * JOINTS,), np.float64)
        self.action_space = spaces.Box(-1, 1, (JOINTS,), np.float32)
        self._state = np.zeros(2 * JOINTS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = self.np_random.normal(0, [1.0] * JOINTS + [5.0] * JOINTS)
        return self._state.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        place, speed = np.split(self._state, 2)
        speed = 0.95 * speed + action + self.np_random.normal(0, 0.5, JOINTS)
        self._state = np.concatenate([0.99 * place + 0.02 * speed, speed])
        return self._state.copy(), 0.0, False, bool(self.np_random.random() < 0.01), {}


def task_of(name: str) -> Any:
    """A task of the catalogue, its limits learned, or the joints under a power limit."""
    import cvflows as cv

    if name == "17 joints":
        limit = cv.MaxPower(JOINTS, POWER)
        return cv.Task.from_env(
            Joints, limit, tuple(range(JOINTS, 2 * JOINTS)), contexts=cv.Uniform(JOINTS, -15.0, 15.0), name=name
        )
    task = cv.task(name)
    return task if task.limits is None else task.learn(episodes=200, self_test=0).task


def measure(name: str, calls: int, python_calls: int, decisions: int) -> dict[str, Any]:
    """Figures of one task."""
    import cvflows as cv
    from cvflows.controllers.compiling import Library, compile_library
    from cvflows.controllers.parity import play_observations

    task = task_of(name)
    agent = cv.Agent("PPO+CVFlow", task, map_=cv.make_map("ray", task.constraint, task.contexts), hidden=HIDDEN)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        runs_onnx = all(importlib.util.find_spec(name) is not None for name in ("onnx", "onnxruntime"))
        artefact = agent.export(folder / "controller", onnx=runs_onnx)
        played = play_observations(agent._trainer, 256)
        controller = cv.Controller.load(artefact)
        times = {
            "c": timed_in_c(artefact, folder, played[np.arange(calls) % len(played)]),
            "python": timed(controller.act, played, python_calls),
            "predict": timed(agent.predict, played, python_calls),
        }
        if importlib.util.find_spec("stable_baselines3") is not None:
            import stable_baselines3

            layers = {"net_arch": list(HIDDEN)}
            peer = stable_baselines3.PPO("MlpPolicy", task.make_env(), policy_kwargs=layers, device="cpu")
            times["sb3"] = timed(lambda seen: peer.predict(seen, deterministic=True), played, python_calls)
        if runs_onnx:
            times["onnx"] = timed(onnx_session(artefact / "controller.onnx"), played, python_calls)
        path = compile_library(artefact, folder)
        library = Library(path)
        compiled = folder / "controller.o"
        subprocess.run(["cc", "-O2", "-c", str(artefact / "controller.c"), "-o", str(compiled)], check=True)
        subprocess.run(["strip", "--strip-unneeded", str(compiled)], check=True)
        judged = judge(task, library, played, decisions)
        return {
            "task": name,
            **{key: percentiles(found) for key, found in times.items()},
            "object_bytes": compiled.stat().st_size,
            "state_bytes": library.state_size,
            **judged,
        }


def percentiles(times: np.ndarray) -> dict[str, float]:
    """Seconds."""
    return {name: float(np.percentile(times, share)) for name, share in (("p50", 50), ("p99", 99), ("p99.9", 99.9))}


def timed(call: Callable[[np.ndarray], Any], seen: np.ndarray, count: int) -> np.ndarray:
    """Seconds of every call, one observation at a time, after a hundred that warm up."""
    found = []
    for index in range(count + 100):
        one = seen[index % len(seen)]
        began = time.perf_counter()
        call(one)
        found.append(time.perf_counter() - began)
    return np.array(found[100:])


def onnx_session(path: Path) -> Callable[[np.ndarray], Any]:
    """A call of onnxruntime, in one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda seen: session.run(None, {"observation": seen[None]})


def timed_in_c(artefact: Path, folder: Path, seen: np.ndarray) -> np.ndarray:
    """Seconds of every call, by the clock inside C."""
    (folder / "timer.c").write_text(TIMER)
    sources = [str(folder / "timer.c"), str(artefact / "controller.c")]
    flags = ["-std=c99", "-O2", "-I", str(artefact)]
    subprocess.run(["cc", *flags, *sources, "-o", str(folder / "timer"), "-lm"], check=True)
    done = subprocess.run([str(folder / "timer")], input=seen.tobytes(), capture_output=True, check=True)
    return np.array([int(line) for line in done.stdout.split()][100:]) * 1e-9


def judge(task: Any, library: Any, played: np.ndarray, decisions: int) -> dict[str, int]:
    """Decisions, and how many of them were forbidden, or said to be unsafe."""
    from cvflows.constraints.judge import judge_of
    from cvflows.controllers.parity import adversarial, perturbed
    from cvflows.controllers.status import Status

    rows = judge_of(task.constraint)
    sources = [perturbed(played, CHUNK, seed=21), adversarial(played, CHUNK, seed=22)]
    done = forbidden = unsafe = fallbacks = 0
    while done < decisions:
        seen = next(sources[(done // CHUNK) % 2])[: decisions - done]
        run = library.run(seen)
        promised = run.statuses != Status.UNSAFE
        contexts = task.context(seen[promised].astype(float))
        worst = rows.many(contexts, run.actions[promised]).max(axis=1, initial=-1.0)
        forbidden += int((~(worst <= 1e-6)).sum())
        unsafe += int((~promised).sum())
        fallbacks += int((run.statuses != Status.OK).sum())
        done += len(seen)
    return {"decisions": done, "forbidden": forbidden, "fallbacks": fallbacks, "unsafe": unsafe}


def run(quick: bool) -> dict[str, Any]:
    """Seconds per decision, bytes, and forbidden actions."""
    amounts = (2000, 300, 100_000) if quick else (CALLS, PYTHON_CALLS, DECISIONS // len(TASKS))
    tasks = [measure(name, *amounts) for name in TASKS]
    bars = [Bar(f"{row['task']} C p99 in µs", 1e6 * row["c"]["p99"], 1e6 * C_P99, at_least=False) for row in tasks]
    bars += [
        Bar(f"{row['task']} ONNX p50 in µs", 1e6 * row["onnx"]["p50"], 1e6 * ONNX_P50, at_least=False)
        for row in tasks
        if "onnx" in row
    ]
    bars.append(Bar("forbidden actions", sum(row["forbidden"] for row in tasks), 0, at_least=False))
    return {"tasks": tasks, "bars": bars}


def table(report: dict[str, Any]) -> str:
    """The figures as Markdown."""
    kinds = [key for key in KEYS if key in report["tasks"][0]]
    titles = {
        "c": "C",
        "onnx": "onnxruntime",
        "python": "`Controller`",
        "predict": "`agent.predict`",
        "sb3": "SB3 `predict`",
    }
    heads = ["task", *(f"{titles[key]} p50 / p99 / p99.9" for key in kinds), "code", "state", "decisions", "forbidden"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in report["tasks"]:
        cells = [" / ".join(f"{1e6 * value:.3g}" for value in row[key].values()) + " µs" for key in kinds]
        sizes = [f"{row['object_bytes'] / 1000:,.0f} kB", f"{row['state_bytes']} B"]
        counts = [f"{row['decisions']:,}", str(row["forbidden"])]
        lines.append(f"| {' | '.join([row['task'], *cells, *sizes, *counts])} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main("deploy", run, table)
