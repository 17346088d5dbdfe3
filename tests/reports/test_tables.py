"""The figures of a report are those of the runs."""

import json

import numpy as np
import pytest
from benchmarks.synthetic import write_run

from cvflows.reports.paper import TABLES, reported
from cvflows.reports.records import load_runs
from cvflows.reports.stats import iqm
from cvflows.reports.tables import Tables


def test_executed_violations_are_told(runs, tmp_path):
    assert Tables(load_runs([runs])).executed_sentence() == "Forbidden actions are projected: none was executed."
    write_run(tmp_path / "0", "Pole", "SAC", 0, steps=20_000, episodes=60, executed=7)
    tables = Tables(load_runs([runs, tmp_path]))
    assert tables.executed_sentence().startswith("At 7 steps no action was allowed, and 7 forbidden ones were executed")
    assert [(row["empty"], row["executed"]) for row in tables.runs() if row["task"] == "Pole"] == [(7, 7)]


def test_figures_are_those_of_the_runs(runs):
    tables = Tables(load_runs([runs]))
    assert tables.tasks == ["R+D", "Space-Arena"]
    assert tables.methods == ["SAC+CVFlow", "DPre+"]
    finals = [json.loads((runs / "R+D" / "DPre+" / str(seed) / "final.json").read_text()) for seed in range(3)]
    cells = {(cell["task"], cell["method"]): cell for cell in tables.cells("training")}
    cell = cells["R+D", "DPre+"]
    shares = [figures["training"]["cv_percent"] for figures in finals]
    assert cell["mean"] == pytest.approx(np.mean(shares))
    assert cell["spread"] == pytest.approx(np.std(shares, ddof=1))
    assert cell["paper"] == 98.15
    assert cell["difference"] == pytest.approx(np.mean(shares) - 98.15)
    assert cells["Space-Arena", "DPre+"]["counts"] == "episodes"
    limited = next(cell for cell in tables.cells("forbidden") if cell["task"] == "Space-Arena")
    drawn = next(c for c in tables.curves("violations") if (c.task, c.method) == ("Space-Arena", limited["method"]))
    assert 1 < limited["mean"] == pytest.approx(drawn.value[-1], rel=0.1)
    last = next(c for c in tables.curves("violations") if (c.task, c.method) == ("R+D", "DPre+")).value[-1]
    assert last == pytest.approx(float(iqm(np.array(shares))), abs=1e-3)
    assert {row["method"] for row in tables.aggregates()} == set(tables.methods)
    command = next(run["command"] for run in tables.runs() if run["task"] == "R+D" and run["method"] == "DPre+")
    assert command == "cvflows train R+D --method DPre+ --steps 20000 --seed 0"


def test_what_the_paper_reports_is_shipped():
    assert reported("return")["R+D", "SAC+CVFlow"].mean == 21.45
    assert [len(reported(name)) for name in TABLES] == [24, 72, 40]
