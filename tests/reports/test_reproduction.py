"""The paper's tables: every cell has runs, and what is complete stands beside the paper's figures."""

import json
from itertools import product

import pytest

from cvflows.cli import main
from cvflows.errors import ArgumentError, UnknownNameError
from cvflows.reports.paper import reported
from cvflows.reports.reproduction import BUDGETS, PAPER, WORLDS, Choice, cells_of
from cvflows.runs.grid import configs_of


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("table", PAPER)
def test_the_runs_of_a_table_are_its_cells(table, budget):
    grids = Choice.of(table, budget).grids()
    found = [
        (task, method, seed) for grid in grids for task, method, seed in product(grid.tasks, grid.methods, grid.seeds)
    ]
    assert len(set(found)) == len(found)
    cells = {(task, method) for task, method, _ in found}
    wanted = {(task, method) for task in PAPER[table].tasks for method in PAPER[table].methods}
    assert cells <= wanted
    if PAPER[table].figures:
        assert wanted - cells <= {(task, "PPO+Projection") for task in WORLDS}  # which have not been planned


def test_all_tables_together_have_what_the_paper_has():
    grids = Choice.of("all", "full").grids()
    assert {cell for grid in grids for cell in product(grid.tasks, grid.methods)} >= set(reported("return"))


def test_cells_can_be_chosen():
    (config,) = configs_of(Choice.of("Returns", "quick", ["h+m"], ["nfw"]).grids())
    assert (config.task, config.method) == ("H+M", "NFW")
    with pytest.raises(UnknownNameError, match="did you mean 'returns'"):
        Choice.of("retruns", "quick")
    with pytest.raises(ArgumentError, match="expected one of the entropy table, got R"):
        Choice.of("entropy", "quick", ["R+L2"])


def test_without_runs_there_are_no_cells(tmp_path, capsys):
    assert cells_of(Choice.of("rules", "quick"), tmp_path) == {"rules: return": [], "rules: training": []}
    assert main(["reproduce", "final", "--no-train", "--out", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"] == {"final": []}
    assert main(["reproduce"]) == 0
    assert "steps per second" in capsys.readouterr().out


@pytest.mark.thorough
def test_a_cell_is_trained_once_and_shown_beside_the_papers(tmp_path, capsys):
    cell = ["reproduce", "rules", "--task", "Ball1D", "--method", "DDPG+CVFlow", "--out", str(tmp_path)]
    assert main(cell) == 0
    assert "62.90 ± 3.81" in capsys.readouterr().out
    written = (tmp_path / "Ball1D" / "DDPG+CVFlow" / "0" / "final.json").read_bytes()
    assert main([*cell, "--json"]) == 0
    assert (tmp_path / "Ball1D" / "DDPG+CVFlow" / "0" / "final.json").read_bytes() == written
    (row,) = json.loads(capsys.readouterr().out)["tables"]["rules: training"]
    assert row["seeds"] == 1
    assert row["mean"] == row["paper"] == 0
