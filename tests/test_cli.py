"""The command line: quick to start, clear when wrong, and its pictures show something."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import cvflows as cv
from cvflows.cli import main
from cvflows.maps.store import load_map
from cvflows.runs.progress import Status
from cvflows.terminal import print_run, print_runs

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("arguments", [["--help"], ["tasks"], ["tasks", "--json"], ["methods"]])
def test_starts_without_jax(arguments):
    code = (
        "import sys; from cvflows.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "heavy = {'jax', 'equinox', 'matplotlib', 'mujoco'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)


def test_lists_tasks_in_under_a_second():
    """The best of three, since the machine may be busy."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "cvflows", "tasks"], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    assert min(times) < 1


def test_tasks_table_and_json(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "180")
    assert main(["tasks"]) == 0
    table = capsys.readouterr().out
    assert "H+O+S" in table
    assert "Walker2d-v5" in table
    assert main(["tasks", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["tasks"]
    assert len(rows) == 23
    assert sum(row["in_paper"] for row in rows) == 12
    assert all(row["feasible_share"] is not None for row in rows)


@pytest.mark.parametrize("task", [pytest.param("H+O+S", marks=pytest.mark.thorough), "Ball1D"])
def test_draw_writes_a_picture(task, tmp_path, capsys):
    assert main(["draw", task, "--out", str(tmp_path), "--json"]) == 0
    drawn = json.loads(capsys.readouterr().out)
    pixels = matplotlib.image.imread(drawn["picture"])[..., :3]
    assert drawn["projected"] > 30
    allowed = np.abs(pixels - np.array([0xCF, 0xE8, 0xDC]) / 255).max(axis=-1) < 0.02
    assert allowed.mean() > 0.002, "the allowed set is not visible"


def test_unknown_task_is_one_line(capsys):
    assert main(["draw", "W+OS"]) == 2
    assert "did you mean 'W+O+S'" in capsys.readouterr().err


@pytest.mark.thorough
def test_fit_prints_saves_and_draws(tmp_path, capsys):
    out = tmp_path / "disc"
    assert main(["fit", "r+l2", "--map", "slice", "--steps", "60", "--out", str(out), "--seed", "4", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["task"] == "R+L2"
    assert figures["map"] == "slice"
    assert (figures["seed"], figures["gradient_steps"], figures["infeasible"]) == (4, 60, 0)
    assert {"seconds", "accuracy", "recall", "f1", "mean_violation"} <= set(figures)
    assert figures["accuracy"] == 1
    pixels = matplotlib.image.imread(figures["picture"])[..., :3]
    uniform = np.array([0x21, 0x90, 0x8C]) / 255  # the colour of density 1
    assert (np.abs(pixels - uniform).max(axis=-1) < 0.12).mean() > 0.02, "the density is not visible"
    assert json.loads((out / "map.json").read_text())["about"]["recall"] == figures["recall"]
    assert load_map(out).constraint == cv.task("R+L2").constraint


def test_fit_refuses_an_unknown_map_in_one_line(capsys):
    assert main(["fit", "R+L2", "--map", "gouge"]) == 2
    assert "did you mean 'gauge'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["train", "Ball1D", "--steps", "0"], "`steps`: expected a whole number ≥ 1, got 0"),
        (["train", "Ball1D", "--steps", "1" * 30], "`steps`: expected a whole number ≤"),
        (["train", "Ball1D", "--set", "learning_rate=nan"], "`learning_rate`: expected a number in (0, 10], got nan"),
        (["train", "Ball1D", "--set", "batch=0"], "`batch`: expected a whole number ≥ 1, got 0"),
        (["train", "Ball1D", "--set", "discount=5"], "`discount`: expected a number in [0, 1], got 5"),
        (["train", "Ball1D", "--set", "tau=-1"], "`tau`: expected a number in (0, 1], got -1"),
        (["train", "Ball1D", "--set", "hidden=8,0"], "`hidden`: expected a whole number ≥ 1, got 0"),
        (["train", "Ball1D", "--set", "=1"], "unknown setting ''"),
        (["train", "Ball1D", "--seed", "-1"], "`seed`: expected a whole number ≥ 0, got -1"),
        (["train", "Ball1D", "--threads", "0"], "`threads`: expected a whole number ≥ 1, got 0"),
        (["train", "Ball1D", "--final-episodes", "-1"], "`final_episodes`: expected"),
        (["train", "Ball1D", "--out", ""], "`out`: expected a value, got nothing"),
        (["train", "Ball1D", "--out", "a\0b"], "`out`: expected text without NUL"),
        (["fit", "R+L2", "--steps", "0"], "`steps`: expected"),
        (["draw", "R+L2", "--seed", "-1"], "`seed`: expected"),
        (["evaluate", ".", "--episodes", "0"], "`episodes`: expected a whole number ≥ 1, got 0"),
        (["evaluate", ".", "--video", "film.mp4"], "`video`: expected a file name ending in .gif"),
        (["suite", "--tasks", "R+D", "--methods", "SAC", "--workers", "0"], "`workers`: expected"),
        (["suite", "binary"], "binary is not TOML"),
        (["suite", "."], "cannot be read (not a plain file)"),
        (["watch", ".", "--every", "0"], "`every`: expected a number in (0, 86400], got 0"),
        (["report", ".", "--out", "."], "`out`: expected the name of a file"),
        (["resume", "binary"], "cannot be read (Not a directory)"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_what_no_option_can_be_is_refused_in_one_line(arguments, named, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("cvflows: ")
    assert named in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError("4 TB"), 70, "out of memory (MemoryError: 4 TB)"),
        (RecursionError("deep"), 70, "unexpected RecursionError: deep (CVFLOWS_DEBUG=1 shows where)"),
        (ZeroDivisionError("two\nlines"), 70, "unexpected ZeroDivisionError: two lines (CVFLOWS_DEBUG=1 shows where)"),
        (PermissionError(13, "Permission denied", "x"), 74, "PermissionError: [Errno 13] Permission denied: 'x'"),
    ],
)
def test_no_traceback_reaches_the_terminal(error, code, words, monkeypatch, capsys):
    def fail(**_):
        raise error

    monkeypatch.setattr("cvflows.tasks.registration.gymnasium_id", lambda _: fail())
    assert main(["tasks"]) == code
    assert capsys.readouterr().err == f"cvflows: {words}\n"
    monkeypatch.setenv("CVFLOWS_DEBUG", "1")
    with pytest.raises(type(error)):
        main(["tasks"])


def test_works_without_a_home(tmp_path):
    code = "import sys; from cvflows.cli import main; sys.exit(main(['tasks']))"
    env = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    for home in ({}, {"HOME": "/proc/nowhere"}, {"HOME": str(tmp_path / "file")}):
        (tmp_path / "file").write_text("")
        done = subprocess.run([sys.executable, "-c", code], env=env | home, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_compiled_code_is_kept_in_a_private_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "cvflows").mkdir(mode=0o777)
    assert main(["tasks", "--json"]) == 0
    assert (tmp_path / "cvflows").stat().st_mode & 0o777 == 0o700
    assert os.environ.pop("JAX_COMPILATION_CACHE_DIR") == str(tmp_path / "cvflows")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert main(["tasks", "--json"]) == 0
    assert "is not a folder of yours: compiled code is not kept" in capsys.readouterr().err
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_brackets_in_paths_are_printed_as_they_are(tmp_path, capsys):
    part = {"episodes": 1, "return": 1.0, "return_std": 0.0, "cv_percent": 0.0, "cv_magnitude": 0.0}
    part |= {"projections": 0, "left_percent": 0.0, "length": 3.0}
    figures = {"method": "SAC", "task": "my[red]task", "final": part, "steps": 5, "seconds": 0.0}
    print_run({**figures, "steps_per_second": None, "out": f"{tmp_path}/[x]/[/bold]"})
    said = capsys.readouterr().out
    assert f"out: {tmp_path}/[x]/[/bold]" in said
    assert "my[red]task" in said
    status = Status(tmp_path / "[x]", "a[b]", "c[/d]", 0, "unreadable", 0, 0, problem="[/dim] broken")
    print_runs([status])
    said = " ".join(capsys.readouterr().out.split())
    assert "a[b]" in said
    assert "[/dim] broken" in said
