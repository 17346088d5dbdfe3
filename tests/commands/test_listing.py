"""Commands that list and draw: tables, JSON, and pictures that show something."""

import json

import matplotlib.image
import numpy as np
import pytest

from cvflows.cli import main


def test_tasks_table_and_json(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "180")
    assert main(["tasks"]) == 0
    table = capsys.readouterr().out
    assert "H+O+S" in table
    assert "Walker2d-v5" in table
    assert main(["tasks", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["tasks"]
    assert len(rows) == 34
    assert sum(row["in_paper"] for row in rows) == 12
    assert all(row["feasible_share"] is not None for row in rows if row["in_paper"])


@pytest.mark.parametrize(
    "task", ["R+L2", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("H+O+S", "Ball1D"))]
)
def test_draw_writes_a_picture(task, tmp_path, capsys):
    assert main(["draw", task, "--out", str(tmp_path), "--json"]) == 0
    drawn = json.loads(capsys.readouterr().out)
    pixels = matplotlib.image.imread(drawn["picture"])[..., :3]
    assert drawn["projected"] > 30
    allowed = np.abs(pixels - np.array([0xCF, 0xE8, 0xDC]) / 255).max(axis=-1) < 0.02
    assert allowed.mean() > 0.002, "the allowed set is not visible"
