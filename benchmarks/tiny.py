"""The smallest run that does everything, and what it should end as: for faults by the hundred."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

HYPER: dict[str, Any] = {"hidden": (8, 8), "batch": 8, "learning_starts": 20, "buffer": 64, "train_every": 4}
OPTIONS: dict[str, Any] = {
    "steps": 120,
    "checkpoint_every": 24,
    "evaluate_every": 32,
    "evaluation_episodes": 1,
    "final_episodes": 1,
    "overrides": HYPER,
}
LENGTH = 12
SAME = ("metrics.csv", "evaluations.csv", "losses.csv", "replay.bin", "final.json")
"""What two runs of one config agree on byte for byte."""


@cache
def ball() -> Any:
    """Ball1D with its constraint learned from a few episodes."""
    import cvflows as cv

    return cv.task("Ball1D").learn(episodes=20, self_test=0).task


@cache
def ball_map() -> Any:
    """A map of its set that needs no fit."""
    import cvflows as cv

    return cv.make_map("gauge", ball().constraint, ball().contexts, splines=False)


def make_env() -> Any:
    """Short episodes."""
    import gymnasium

    return gymnasium.wrappers.TimeLimit(ball().make_env(), LENGTH)


def config_of(method: str = "DDPG", seed: int = 0) -> Any:
    """Its settings."""
    from cvflows.runs.config import make_config

    return make_config(ball(), method, seed=seed, **OPTIONS)


class Silent:
    """A board that shows nothing."""

    def __init__(self, *_: Any) -> None: ...

    def log(self, *_: Any) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


_CONSTRAINTS: dict[str, Any] = {}
_LEARNERS: dict[Any, Any] = {}


def rebuilt(data: Any) -> Any:
    """The constraint of a description, the same object each time: compiled functions are kept by it."""
    from cvflows.constraints.spec import rebuild

    key = json.dumps(data, sort_keys=True)
    if key not in _CONSTRAINTS:
        _CONSTRAINTS[key] = rebuild(data)
    return _CONSTRAINTS[key]


def shared_learner(method: Any, settings: Any, problem: Any, map_: Any = None, **options: Any) -> Any:
    """A fresh learner that shares its compiled functions with earlier ones of the same settings."""
    from cvflows.agents.learner import Learner
    from cvflows.maps.store import map_digest

    fresh = Learner(method, settings, problem, map_, **options)
    digest = None if map_ is None else map_digest(map_)
    key = (method.name, settings, problem.constraint, problem.observation_dim, digest, *sorted(options.items()))
    first = _LEARNERS.setdefault(key, fresh)
    for name in ("_act", "_act_randomly", "_decide", "_choose", "_learn"):
        setattr(fresh, name, getattr(first, name))
    return fresh


@contextmanager
def compiled_once() -> Iterator[None]:
    """Runs of equal settings share what they compile, also when they are resumed."""
    with ExitStack() as stack:
        stack.enter_context(patch("cvflows.runs.train.Learner", shared_learner))
        for place in ("cvflows.runs.identity", "cvflows.maps.store"):
            stack.enter_context(patch(f"{place}.rebuild", rebuilt))
        yield


@contextmanager
def quick() -> Iterator[None]:
    """Runs that compile once, look at losses often and draw nothing."""
    with ExitStack() as stack:
        stack.enter_context(compiled_once())
        stack.enter_context(patch("cvflows.runs.train.TensorBoard", Silent))
        stack.enter_context(patch("cvflows.runs.train.LOOK_EVERY", 25))
        stack.enter_context(patch("cvflows.agent.resolved", lambda task, _: known(task)))
        stack.enter_context(patch("cvflows.runs.session.resolved", lambda task, _: known(task)))
        stack.enter_context(patch("cvflows.reports.curves.draw_run", lambda folder: folder.path / "curves.png"))
        yield


def known(task: Any) -> Any:
    """`task`, or the learned ball in its place."""
    return ball() if task.name == "Ball1D" and isinstance(task.allowed, tuple) else task


def begin_or_resume(folder: Path, method: str = "DDPG", seed: int = 0) -> Any:
    """A trainer, new or resumed, as a user would get one."""
    from cvflows.runs.session import begin, resume

    if (folder / "config.json").exists():
        return resume(folder, ball() if method == "DDPG" else None, make_env=make_env)
    map_folder = None
    if method == "SAC+CVFlow":
        from cvflows.maps.store import save_map

        map_folder = save_map(ball_map(), folder.with_name(f"{folder.name}-map"))
    return begin(ball(), config_of(method, seed), folder, make_env=make_env, map_folder=map_folder)


def finish(
    folder: Path, method: str = "DDPG", seed: int = 0, tick: Callable[[Any], None] | None = None
) -> dict[str, Any]:
    """Take a run to its end."""
    from cvflows.runs.session import complete

    return dict(complete(begin_or_resume(folder, method, seed), tick))


def contents(folder: Path) -> dict[str, bytes]:
    """What must not depend on how often a run was cut off."""
    found = {name: (folder / name).read_bytes() for name in SAME if (folder / name).exists()}
    state = json.loads((folder / "checkpoint.json").read_bytes())["state"]["file"]
    return found | {state: (folder / state).read_bytes()}


class TooLongError(BaseException):
    """Something did not come back."""


@contextmanager
def limited(seconds: float, error: BaseException) -> Iterator[None]:
    """Raise `error` in what follows when it takes longer."""

    def stop(*_: Any) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 5.0)  # again, where a callback of the collector swallowed it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def copied(source: Path, target: Path) -> Path:
    """A copy in a folder of its own."""
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target, symlinks=True)
    return target
