"""Reports: statistics against oracles, every run shown or named, a page that needs nothing else."""

import json
import re

import numpy as np
import pytest
import scipy.stats
from benchmarks.synthetic import spoil, write_run

from cvflows.cli import main
from cvflows.errors import ArgumentError
from cvflows.files import read_record, write_record
from cvflows.reports.paper import TABLES, reported
from cvflows.reports.records import load_runs, parse_columns
from cvflows.reports.stats import aggregate, curve, improvement, iqm
from cvflows.reports.tables import Tables
from cvflows.runs.config import make_config
from cvflows.runs.identity import FORMAT
from cvflows.runs.store import RunFolder
from cvflows.tasks.catalogue import task as find_task


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    for task in ("R+D", "Space-Arena"):
        for method in ("SAC+CVFlow", "DPre+"):
            for seed in range(3):
                write_run(out / task / method / str(seed), task, method, seed, steps=20_000, episodes=60)
    return out


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 10])
def test_iqm_is_a_trimmed_mean(count):
    values = np.random.default_rng(count).normal(size=(count, 7))
    np.testing.assert_allclose(iqm(values), scipy.stats.trim_mean(values, 0.25))


def test_improvement_is_the_mann_whitney_statistic():
    rng = np.random.default_rng(0)
    ours, theirs = [rng.integers(0, 9, 6), rng.normal(1, 1, 5)], [rng.integers(0, 9, 4), rng.normal(0, 1, 7)]
    wins = [scipy.stats.mannwhitneyu(x, y).statistic / (len(x) * len(y)) for x, y in zip(ours, theirs, strict=True)]
    found = improvement(ours, theirs)
    assert found.value == pytest.approx(np.mean(wins))
    assert found.low < found.value < found.high
    assert improvement(theirs, ours).value == pytest.approx(1 - found.value)


def test_intervals_hold_what_they_should():
    """Ten runs on each of three tasks of other means: a 95 % interval of the IQM covers most of the time."""
    rng, inside = np.random.default_rng(1), 0
    truth = iqm(np.concatenate([rng.normal(mean, 1, 100_000) for mean in (0, 1, 2)]))
    for trial in range(200):
        found = aggregate([rng.normal(mean, 1, 10) for mean in (0, 1, 2)], repeats=400, seed=trial)
        inside += found.low <= truth <= found.high
    assert 0.87 <= inside / 200 <= 0.99


def test_executed_violations_are_told(runs, tmp_path):
    assert Tables(load_runs([runs])).executed_words() == "Forbidden actions are projected: none was executed."
    write_run(tmp_path / "0", "Pole", "SAC", 0, steps=20_000, episodes=60, executed=7)
    tables = Tables(load_runs([runs, tmp_path]))
    assert tables.executed_words().startswith("At 7 steps no action was allowed, and 7 forbidden ones were executed")
    assert [(row["empty"], row["executed"]) for row in tables.runs() if row["task"] == "Pole"] == [(7, 7)]


def test_curves_follow_the_seeds():
    values = np.cumsum(np.random.default_rng(2).normal(size=(5, 30)), axis=1)
    middle, low, high = curve(values)
    np.testing.assert_allclose(middle, iqm(values))
    assert np.all((low <= middle) & (middle <= high))
    assert np.all((values.min(axis=0) <= low) & (high <= values.max(axis=0)))


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


def test_what_cannot_be_shown_is_named(runs, tmp_path):
    fine = write_run(tmp_path / "fine", "R+D", "SAC", 0, steps=20_000, episodes=60)
    write_run(tmp_path / "twice", "R+D", "SAC", 0, steps=20_000, episodes=60, complete=False)
    write_run(tmp_path / "half", "R+D", "SAC", 1, steps=10_000, episodes=60, complete=False)
    spoil(write_run(tmp_path / "spoilt", "R+D", "SAC", 2, steps=20_000, episodes=60))
    RunFolder(tmp_path / "empty").create(make_config(find_task("R+D"), "SAC", seed=3))
    write_record(fine / "about.json", FORMAT, {**read_record(fine / "about.json", FORMAT), "cvflows": "0.0.9"})
    with (tmp_path / "half" / "metrics.csv").open("a") as file:
        file.write("10001,99,0.3")  # a line that is being written
    loaded = load_runs([tmp_path])
    assert [record.folder.name for record in loaded.records] == ["fine", "half"]
    notes = "\n".join(loaded.notes)
    for words in (
        r"left out: .*spoilt .*is not JSON",
        r"left out: .*empty .*nothing was measured",
        r"left out: .*twice .*same task, method and seed as .*fine",
        r"not complete: R\+D SAC 1",
        r"several versions of cvflows: 0\.0\.9",
        r"SAC on R\+D mixes budgets of 10,000 and 20,000 steps",
    ):
        assert re.search(words, notes), words
    with pytest.raises(ArgumentError, match="`runs`: expected at least one run that can be read"):
        load_runs([tmp_path / "spoilt"])


def test_one_run_is_reported_from_wherever_one_stands(tmp_path, monkeypatch, capsys):
    write_run(tmp_path / "run", "R+D", "SAC+CVFlow", 0, steps=20_000, episodes=60)
    for place, name in ((tmp_path, "run"), (tmp_path / "run", "."), (tmp_path / "run", "../run")):
        monkeypatch.chdir(place)
        assert main(["report", name, "--json", "--out", "page.html"]) == 0
        figures = json.loads(capsys.readouterr().out)
        assert figures["runs"][0]["complete"] == 1
        assert not any("cannot be shown" in note for note in figures["notes"])


def test_changed_figures_are_not_shown(tmp_path):
    for seed in range(3):
        write_run(tmp_path / str(seed), "R+D", "SAC", seed, steps=20_000, episodes=60)
    for seed, name in enumerate(("evaluations.csv", "timing.csv")):
        path = tmp_path / str(seed) / name
        path.write_text(path.read_text().replace("0", "7", 1))
    loaded = load_runs([tmp_path])
    assert [record.key[2] for record in loaded.records] == [2]
    assert sum("its checksum differs" in note for note in loaded.notes) == 2


def test_half_a_line_is_dropped():
    assert parse_columns("a,b\n1,2\n3,4\n5")["b"].tolist() == [2, 4]
    assert parse_columns("a,b\n") == parse_columns("") == {}


def test_the_page_stands_alone(runs, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["report", str(runs), "-o", str(page), "--no-maps", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    text = page.read_text()
    assert len(text) < 5e6
    assert not re.findall(r'(?:src|href)="(?!#|data:)', text)
    assert "98.150" in text
    assert {path.rsplit(".", 1)[1] for path in figures["figures"]} == {"png", "pdf"}
    for name in ("learning", "violations", "aggregate"):
        assert (tmp_path / "page_figures" / f"{name}.pdf").stat().st_size > 5000
    assert main(["report", str(tmp_path / "nothing")]) == 2
    assert "`runs`: expected folders with runs in them" in capsys.readouterr().err
