"""The command line: quick to start, clear when wrong, and its pictures show something."""

import json
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
