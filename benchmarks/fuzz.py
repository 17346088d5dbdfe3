"""Hostile command lines and arguments: every answer is a result, or one line that says what was wrong."""

from __future__ import annotations

import contextlib
import io
import math
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.tiny import HYPER, TooLongError, ball, ball_map, config_of, finish, known, limited, quick

SECONDS = 0.5
"""After which a command is interrupted, as by Ctrl-C: it was accepted and would take long."""
COMMANDS, PROCESSES = 0.15, 1000
"""Share of command lines among the cases; one in how many command lines runs in a process of its own."""
NUMBERS = (
    *(
        "0",
        "-1",
        "1",
        "3",
        "nan",
        "inf",
        "-inf",
        "1e308",
        "1e-320",
        "1.5",
        "-0.0",
        "1" * 30,
        "9" * 5000,
        "0x10",
        "1_000",
    ),
    *(
        "",
        " ",
        "none",
        "None",
        "true",
        "²",
        "٣",
        "1,5",
        "--",
        "1e",
        "\U0001f40d",
        "[bold]",
        "a\nb",
        "\udce9",
        "../..",
        "-",
    ),
)
NAMES = (
    "Ball1D",
    "ball1d",
    "R+L2",
    "",
    "W+",
    "*",
    "[red]x[/red]",
    "\U0001f40d",
    "a" * 4000,
    "../x",
    "H+O+S",
    "\udce9",
    "%s%n",
)
PATHS = (
    *("run", "run/", "./run", "map", "suite", "file", "binary", "nowhere", "nowhere/below", ".", "..", "", "locked/x"),
    *(
        "[x]",
        "a b",
        "\U0001f40d",
        "/dev/null",
        "/dev/zero",
        "/proc/self/mem",
        "/proc/x",
        "file/below",
        "x" * 300,
        "\udce9",
    ),
    *("pipe", "loop", "grid.toml", "bad.toml", "~", "a\nb", "%s", "-", "\0"),
)
OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "tasks": {"--json": ()},
    "methods": {"--json": ()},
    "draw": {"": NAMES, "--seed": NUMBERS, "--out": PATHS},
    "fit": {"": NAMES, "--kind": NAMES, "--seed": NUMBERS, "--steps": NUMBERS, "--form": NAMES, "--out": PATHS},
    "train": {
        "": NAMES,
        "--method": ("SAC", "DDPG", "sac", *NAMES),
        **{f"--{name}": NUMBERS for name in ("steps", "seed", "num-envs", "checkpoint-every", "evaluate-every")},
        **{f"--{name}": NUMBERS for name in ("evaluation-episodes", "final-episodes", "threads")},
        **{f"--{name}": NAMES for name in ("kind", "form", "entropy", "preset")},
        "--map-folder": PATHS,
        "--out": PATHS,
        "--set": (
            *(f"{name}={value}" for name in (*HYPER, "discount", "tau", "learning_rate", "noise") for value in NUMBERS),
            *("=", "x", "hidden=", "hidden=8,,8", "hidden=8,8", "standardise=2", "steps=5", "=1", "tau"),
        ),
    },
    "resume": {"": PATHS, "--json": ()},
    "evaluate": {"": PATHS, "--episodes": NUMBERS, "--video": (*PATHS, "x.gif", "file/x.gif", "/proc/x.gif")},
    "suite": {
        "": PATHS,
        **{f"--{name}": NUMBERS for name in ("seeds", "steps", "workers", "retries", "seed-list")},
        "--tasks": NAMES,
        "--methods": ("SAC", *NAMES),
        "--out": PATHS,
        "--mirror": (*PATHS, "s3://", "x://y"),
        "--launcher": ("local", "ray", "x"),
    },
    "watch": {"": PATHS, "--every": NUMBERS, "--once": (), "--json": ()},
    "report": {"": PATHS, "--out": PATHS, "--title": (*NAMES, "<script>"), "--no-maps": (), "--json": ()},
}
HEAVY = "accepted"
ACCEPTED = 500
"""One process for an accepted command line in this many cases."""
VALUES: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3.5, 10**30, 10**5000, -(10**30), math.nan, math.inf, -math.inf, 1e308, True, False, None, "", "3"),
    *("x", "\U0001f40d", b"bytes", (), [], {}, (1, 2), [1, "x"], object(), 1j, np.float32(2), np.int64(3), np.zeros(3)),
    *(np.zeros((0, 3)), np.full(3, np.nan), np.zeros((2, 2, 3)), "SAC", "Ball1D", lambda: 1, Path("nowhere"), range(3)),
)


def fuzz(count: int, seed: int = 0) -> dict[str, Any]:
    """Command lines and calls with hostile values; whatever ends in a traceback is described."""
    rng = np.random.default_rng(seed)
    tracebacks: list[str] = []
    accepted: list[list[str]] = []
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, quick(), contextlib.ExitStack() as stack:
        _prepare(Path(folder))
        os.chdir(folder)
        calls = _calls()
        stack.enter_context(_nothing_started())
        try:
            for case in range(count):
                if rng.random() < COMMANDS:
                    words = _words(rng)
                    problem, ran = (_in_process(words), True) if case % PROCESSES else (_in_a_process(words), False)
                    if ran and problem == HEAVY:
                        accepted.append(words)
                        problem = ""
                    name = repr(words)
                else:
                    name, problem = _called(rng, calls)
                if problem:
                    tracebacks.append(f"{name[:300]}: {problem[-300:]}")
            rng.shuffle(accepted)
            some = {repr(words): _in_a_process(words) for words in accepted[: max(1, count // ACCEPTED)]}
            tracebacks += [f"{name[:300]}: {problem[-300:]}" for name, problem in some.items() if problem]
        finally:
            os.chdir(before)
    return {"tried": count, "tracebacks": tracebacks}


class AcceptedError(KeyboardInterrupt):
    """A command line was accepted and would now compute for long."""


def _accept(*_: Any, **__: Any) -> Any:
    raise AcceptedError


@contextlib.contextmanager
def _nothing_started() -> Any:
    """What takes long is not begun in this process: an interrupt within JAX would break what follows.

    Suites start no processes, figures of reports are not drawn; pictures, fits and random episodes are accepted, and
    some of these commands run in processes of their own afterwards.
    """
    with (
        patch("cvflows.runs.launch.Local.run", lambda self, jobs, logs, ended, tick: None),
        patch("cvflows.reports.plots.write_plots", lambda tables, folder: []),
        patch("cvflows.reports.figures.draw_task", _accept),
        patch("cvflows.runs.fitting.fit_map", _accept),
        patch("cvflows.tasks.statewise.learn_task", _accept),
    ):
        yield


def _prepare(root: Path) -> None:
    """What hostile paths lead to."""
    from cvflows.maps.store import save_map

    finish(root / "run")
    finish(root / "suite" / "Ball1D" / "DDPG" / "0")
    save_map(ball_map(), root / "map")
    (root / "file").write_text("text")
    (root / "binary").write_bytes(bytes(range(256)) * 9)
    (root / "grid.toml").write_text('tasks = ["Ball1D"]\nmethods = ["SAC"]\nsteps = 100\n')
    (root / "bad.toml").write_text('tasks = 3\nmethods = [1]\nseeds = "x"\nset = 1\n')
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to("loop")
    (root / "locked").mkdir(mode=0o000)


def _words(rng: np.random.Generator) -> list[str]:
    """A command with a few options, most of them with values that it should not have."""
    if rng.random() < 0.03:
        return [str(rng.choice(PATHS)) for _ in range(int(rng.integers(3)))]
    command = str(rng.choice(list(OPTIONS)))
    options = OPTIONS[command]
    words = [command]
    if "" in options and rng.random() < 0.9:
        first = options[""]
        words.append(first[0] if rng.random() < 0.6 else first[int(rng.integers(len(first)))])
    if command == "train":
        words += ["--method", "DDPG", "--steps", "30", "--final-episodes", "1", "--set", "hidden=8,8"]
    for _ in range(int(rng.integers(0, 4))):
        name = str(rng.choice([name for name in options if name] or ["--json"]))
        values = options.get(name, ())
        words.append(name)
        if values and rng.random() < 0.97:
            words.append(values[int(rng.integers(len(values)))])
    if rng.random() < 0.03:
        words.insert(int(rng.integers(len(words) + 1)), str(rng.choice(["--nothing", "-x", "--", "--json=3", "@file"])))
    return words


def _in_process(words: list[str]) -> str:
    """What was wrong with the way a command line ended; nothing, most of the time."""
    from cvflows.cli import main

    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), limited(SECONDS, KeyboardInterrupt()):
            code: Any = main(words)
    except SystemExit as left:
        code = left.code
    except BaseException as error:
        return f"raised {error!r}"
    if code == 130:  # accepted, and then interrupted
        return HEAVY
    said = err.getvalue()
    shown = "Traceback" in said and "Exception ignored in" not in said  # by the interpreter, when interrupted there
    if code in (70, None) or shown:
        return f"exit code {code}: {said}"
    lines = [line for line in said.splitlines() if line.startswith("cvflows: ") and "warning" not in line]
    return f"exit code {code} without a word: {said}" if code in (2, 74) and not (lines or "helptext" in said) else ""


def _in_a_process(words: list[str]) -> str:
    if any("\0" in word for word in words):
        return ""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "cvflows", *words], capture_output=True, timeout=20, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return ""
    said = done.stderr.decode(errors="replace")
    return f"exit code {done.returncode}: {said}" if "Traceback" in said or done.returncode == 70 else ""


def _calls() -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
    """Public calls, and the arguments of each that get hostile values."""
    from dataclasses import replace

    import cvflows as cv
    from cvflows.agents.methods import method
    from cvflows.runs.config import make_config, parse_overrides
    from cvflows.runs.grid import Grid
    from cvflows.runs.launch import Local
    from cvflows.runs.session import resume

    agent = cv.Agent("DDPG", ball(), **HYPER)
    hyper = tuple(method("DDPG").algorithm.Config.names())
    run = ("steps", "seed", "num_envs", "evaluate_every", "evaluation_episodes", "final_episodes", "checkpoint_every")
    config = config_of()

    def made(**values: Any) -> Any:
        return make_config(ball(), "DDPG", overrides={}, **values)

    return {
        "settings": (method("DDPG").algorithm.Config, hyper),
        "make_config overrides": (lambda **values: make_config(ball(), "DDPG", overrides=values), hyper),
        "make_config": (made, (*run, "map", "form", "preset")),
        "RunConfig": (lambda **values: replace(config, **values), ("task", "method", *run)),
        "Agent": (
            lambda **values: cv.Agent("DDPG", ball(), **{**HYPER, **values}),
            ("seed", "num_envs", "map", *hyper),
        ),
        "Agent method": (lambda method: cv.Agent(method, ball()), ("method",)),
        "predict": (agent.predict, ("observation",)),
        "Agent.load": (cv.Agent.load, ("folder",)),
        "load_map": (cv.load_map, ("folder",)),
        "resume": (resume, ("folder",)),
        "learn": (lambda steps: agent.learn(steps, progress=False), ("steps",)),
        "evaluate": (agent.evaluate, ("episodes",)),
        "task": (lambda name: known(cv.task(name)), ("name",)),
        "method": (method, ("name",)),
        "Grid": (
            lambda **values: Grid(**{"tasks": ("Ball1D",), "methods": ("SAC",), **values}).configs(),
            ("tasks", "methods", "seeds", "steps", "preset", "form", "set", "evaluate_every", "checkpoint_every"),
        ),
        "Local": (Local, ("workers",)),
        "parse_overrides": (lambda text: parse_overrides([text]), ("text",)),
        "FitConfig": (
            cv.FitConfig,
            ("steps", "batch", "learning_rate", "penalty", "anneal", "margin", "gradient_clip", "check_every", "seed"),
        ),
    }


def _called(rng: np.random.Generator, calls: dict[str, tuple[Callable[..., Any], tuple[str, ...]]]) -> tuple[str, str]:
    """One call: its name with its arguments, and the error where it is none of ours."""
    from cvflows.errors import CVFlowsError

    name = list(calls)[int(rng.integers(len(calls)))]
    function, arguments = calls[name]
    some = rng.choice(len(arguments), size=min(int(rng.integers(1, 3)), len(arguments)), replace=False)
    values = {arguments[int(which)]: VALUES[int(rng.integers(len(VALUES)))] for which in some}
    if "folder" in values and (name == "load_map" or rng.random() < 0.8):
        values["folder"] = PATHS[int(rng.integers(len(PATHS)))]
    if name == "parse_overrides":
        values["text"] = str(rng.choice(OPTIONS["train"]["--set"]))
    try:
        with limited(SECONDS, TooLongError()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # short calls learn nothing, and say so
            function(**values)
    except (CVFlowsError, TooLongError):
        return "", ""
    except BaseException as error:
        if type(error).__module__.startswith(("jaxtyping", "beartype")):  # types are checked in tests
            return "", ""
        try:
            shown = repr(values)
        except ValueError:
            shown = str(list(values))
        return f"{name}({shown})", f"{type(error).__name__}: {error}"
    return "", ""
