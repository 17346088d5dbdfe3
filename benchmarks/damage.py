"""Damage to every kind of file of run, map and suite folders, and what each command makes of it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.tiny import TooLongError, ball_map, config_of, contents, copied, finish, limited, make_env, quick

SECONDS = 20.0
"""Whatever takes longer hangs."""
UNREAD = ("lock", "curves.png", "map.png")
"""Files that nothing is read from."""


class Outcome(NamedTuple):
    """What a command did: its result, what it said about damage, and an error if it failed."""

    result: Any
    said: str
    error: BaseException | None


def damage(count: int, seed: int = 0) -> dict[str, Any]:
    """Damage one file at a time, then use the folder; what became of each attempt.

    `refused`: an error, a note, a warning or the state of a run tells of it. `harmless`: the results are those of the
    whole folder. `silently_wrong` and `tracebacks` describe each case.
    """
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {"tried": count, "refused": 0, "harmless": 0, "silently_wrong": [], "tracebacks": []}
    with tempfile.TemporaryDirectory() as place, quick():
        root = Path(place)
        whole = _folders(root / "whole")
        expected: dict[tuple[str, str], Outcome] = {}
        for _ in range(count):
            name = str(rng.choice(list(USES)))
            use = str(rng.choice(list(USES[name])))
            if (name, use) not in expected:
                expected[name, use] = _attempt(USES[name][use], copied(whole[name], root / "used"))
            used = copied(whole[name], root / "used")
            case = f"{use} of {name}: {_spoil(rng, used, whole)}"
            kind, words = _judge(_attempt(USES[name][use], used), expected[name, use])
            if kind in ("silently_wrong", "tracebacks"):
                found[kind].append(f"{case}: {words}")
            else:
                found[kind] += 1
    return found


def _judge(got: Outcome, expected: Outcome) -> tuple[str, str]:
    from cvflows.errors import CVFlowsError

    if got.error is not None:
        known = isinstance(got.error, CVFlowsError)
        return ("refused", "") if known else ("tracebacks", repr(got.error))
    if got.result == expected.result:
        return "harmless", ""
    told = got.said and got.said != expected.said
    return ("refused", "") if told else ("silently_wrong", f"{got.result!r} instead of {expected.result!r}"[:500])


def _attempt(use: Callable[[Path], tuple[Any, str]], folder: Path) -> Outcome:
    from cvflows.errors import DamageWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with limited(SECONDS, TooLongError()):
                result, said = use(folder)
        except (Exception, TooLongError) as error:
            return Outcome(None, "", error)
    said += "".join(str(one.message) for one in caught if issubclass(one.category, DamageWarning))
    return Outcome(result, said, None)


def _folders(root: Path) -> dict[str, Path]:
    """Runs, cut off and complete, with a map and without; a map; a suite."""
    from cvflows.maps.store import save_map
    from cvflows.runs.grid import SHARED

    class Stop(BaseException):
        """Cuts a run off."""

    def stop(trainer: Any) -> None:
        if trainer.step >= 90:
            raise Stop

    for name, method in (("cut off", "DDPG"), ("cut off, map", "SAC+CVFlow")):
        with contextlib.suppress(Stop):
            finish(root / name, method, tick=stop)
    finish(root / "complete", "DDPG", seed=1)
    finish(root / "complete, map", "SAC+CVFlow", seed=1)
    save_map(ball_map(), root / "map", about={"map": "gauge"}, checks=[])
    suite = root / "suite"
    for method, seed in (("DDPG", 0), ("DDPG", 1), ("SAC+CVFlow", 0)):
        finish(suite / "Ball1D" / method / str(seed), method, seed)
    shared = suite / SHARED / "Ball1D"
    shutil.copytree(root / "map", shared / "gauge")
    shutil.copy(root / "complete" / "constraint.json", shared)
    return {name: root / name for name in USES}


def _resumed(folder: Path) -> tuple[Any, str]:
    from cvflows.runs.session import complete, resume

    complete(resume(folder, make_env=make_env))
    return contents(folder), ""


def _command(words: list[str], folder: Path) -> tuple[int, str, str]:
    """A command line's exit code, output and complaints, paths left out."""
    from cvflows.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as left:
            code = int(left.code or 0)
    if code not in (0, 2):
        raise RuntimeError(f"exit code {code}: {err.getvalue()}")
    return code, out.getvalue().replace(str(folder), ""), err.getvalue()


def _evaluated(folder: Path) -> tuple[Any, str]:
    code, out, err = _command(["evaluate", str(folder), "--episodes", "1", "--json"], folder)
    return (code, out), err


def _watched(folder: Path) -> tuple[Any, str]:
    code, out, err = _command(["watch", str(folder), "--json"], folder)
    states = json.loads(out) if out else {}
    return (code, out), err + "".join(f"{run['state']} {run['problem']}" for run in states.get("runs", ()))


def _reported(folder: Path) -> tuple[Any, str]:
    from cvflows.reports.records import load_runs
    from cvflows.reports.tables import Tables

    tables = Tables(load_runs([folder]))
    names = ("return", "training", "final", "forbidden", "magnitude")
    figures = {name: tables.cells(name) for name in names}
    curves = [vars(curve) for name in ("return", "violations") for curve in tables.curves(name)]
    speed = [cell["mean"] for cell in tables.cells("speed")]
    versions = [run["versions"] for run in tables.runs()]
    return repr((figures, curves, tables.aggregates(), versions, speed)), "".join(tables.notes)


def _loaded(folder: Path) -> tuple[Any, str]:
    import cvflows as cv

    agent = cv.Agent.load(folder)
    observations = np.linspace(0.1, 0.9, 12, dtype=np.float32).reshape(4, 3)
    action, _ = agent.predict(observations)
    return (action.tobytes(), agent.config, [vars(episode) for episode in agent.episodes]), ""


def _map_loaded(folder: Path) -> tuple[Any, str]:
    from cvflows.maps.store import load_map, map_digest

    return map_digest(load_map(folder)), ""


def _worked(folder: Path) -> tuple[Any, str]:
    """A run of a suite that begins anew with what its folder shares."""
    from cvflows.runs.grid import SHARED
    from cvflows.runs.worker import run

    fresh = folder / "Ball1D" / "DDPG" / "2"
    run(config_of("DDPG", seed=2), fresh, folder / SHARED / "Ball1D", lambda: None)
    return contents(fresh), ""


_OF_RUN: dict[str, Callable[[Path], tuple[Any, str]]] = {
    "resume": _resumed,
    "evaluate": _evaluated,
    "watch": _watched,
    "report": _reported,
    "Agent.load": _loaded,
}
USES: dict[str, dict[str, Callable[[Path], tuple[Any, str]]]] = {
    "cut off": _OF_RUN,
    "cut off, map": _OF_RUN,
    "complete": _OF_RUN,
    "complete, map": _OF_RUN,
    "map": {"load_map": _map_loaded},
    "suite": {"report": _reported, "watch": _watched, "worker": _worked},
}


def _spoil(rng: np.random.Generator, folder: Path, whole: dict[str, Path]) -> str:
    """Damage one file; say which and how."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in UNREAD)
    path = files[int(rng.integers(len(files)))]
    how = list(DAMAGE)[int(rng.integers(len(DAMAGE)))]
    words = DAMAGE[how](rng, path, files, whole)
    return f"{path.relative_to(folder)} {how} {words or ''}"


def _flip(rng: np.random.Generator, path: Path, *_: Any) -> str:
    content = bytearray(path.read_bytes() or b" ")
    at = int(rng.integers(len(content)))
    content[at] ^= int(rng.integers(1, 256))
    path.write_bytes(bytes(content))
    return f"at {at}"


def _truncate(rng: np.random.Generator, path: Path, *_: Any) -> str:
    size = int(rng.integers(max(path.stat().st_size, 1)))
    os.truncate(path, size)
    return f"to {size}"


def _digit(rng: np.random.Generator, path: Path, *_: Any) -> str:
    """Another digit in place of one: still a number, still JSON or CSV."""
    content = bytearray(path.read_bytes())
    places = [at for at, byte in enumerate(content) if 48 <= byte <= 57]
    if not places:
        return _flip(rng, path)
    at = places[int(rng.integers(len(places)))]
    content[at] = 48 + (content[at] - 48 + int(rng.integers(1, 10))) % 10
    path.write_bytes(bytes(content))
    return f"at {at}"


def _delete(rng: np.random.Generator, path: Path, *_: Any) -> None:
    path.unlink()


def _extend(rng: np.random.Generator, path: Path, *_: Any) -> None:
    with path.open("ab") as file:
        file.write(rng.bytes(int(rng.integers(1, 200))))


def _line_more(rng: np.random.Generator, path: Path, *_: Any) -> None:
    """The last line once more."""
    content = path.read_bytes()
    path.write_bytes(content + content.splitlines(keepends=True)[-1] if content else b"0\n")


def _swap(rng: np.random.Generator, path: Path, files: list[Path], *_: Any) -> str:
    other = files[int(rng.integers(len(files)))]
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)
    return f"with {other.name}"


def _foreign(rng: np.random.Generator, path: Path, files: list[Path], whole: dict[str, Path]) -> str:
    """The file of the same name of another folder."""
    others = [found for folder in whole.values() for found in sorted(folder.rglob(path.name)) if found.is_file()]
    other = others[int(rng.integers(len(others)))]
    path.write_bytes(other.read_bytes())
    return f"from {other.parent.name}"


def _folder(rng: np.random.Generator, path: Path, *_: Any) -> None:
    path.unlink()
    path.mkdir()


def _link(rng: np.random.Generator, path: Path, *_: Any) -> None:
    """A link to a copy: same bytes, but whoever writes through it changes something elsewhere."""
    other = path.with_name(f"{path.name}.elsewhere")
    path.rename(other)
    path.symlink_to(other.name)


def _dangling(rng: np.random.Generator, path: Path, *_: Any) -> None:
    path.unlink()
    path.symlink_to("/nowhere/at/all")


def _pipe(rng: np.random.Generator, path: Path, *_: Any) -> None:
    """Whoever opens it to read would wait for ever."""
    path.unlink()
    os.mkfifo(path)


def _zeros(rng: np.random.Generator, path: Path, *_: Any) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _huge(rng: np.random.Generator, path: Path, *_: Any) -> None:
    """A file that claims gigabytes, of which the disk holds none."""
    os.truncate(path, 1 << 40)


def _claim(rng: np.random.Generator, path: Path, *_: Any) -> None:
    """A header that claims gigabytes."""
    path.write_bytes((1 << 33).to_bytes(8, "little") + path.read_bytes()[8:])


def _nested(rng: np.random.Generator, path: Path, *_: Any) -> None:
    path.write_bytes(b"[" * 200_000)


DAMAGE: dict[str, Callable[..., str | None]] = {
    "flipped": _flip,
    "flipped once more": _flip,
    "truncated": _truncate,
    "with another digit": _digit,
    "deleted": _delete,
    "extended": _extend,
    "with a line twice": _line_more,
    "swapped": _swap,
    "replaced by a foreign one": _foreign,
    "replaced by a folder": _folder,
    "replaced by a link": _link,
    "replaced by a dangling link": _dangling,
    "replaced by a pipe": _pipe,
    "zeroed": _zeros,
    "of a terabyte": _huge,
    "with a huge header": _claim,
    "nested deeply": _nested,
}
