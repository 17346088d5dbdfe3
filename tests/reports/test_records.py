"""Run folders as records: every run is shown or named."""

import re

import pytest
from benchmarks.synthetic import spoil, write_run

from cvflows.errors import ArgumentError
from cvflows.files import read_record, write_record
from cvflows.reports.records import load_runs, parse_columns
from cvflows.runs.config import make_config
from cvflows.runs.folder import RunFolder
from cvflows.runs.identity import FORMAT
from cvflows.tasks.catalogue import task as find_task


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
        r"dropped: .*spoilt .*is not JSON",
        r"dropped: .*empty .*nothing was measured",
        r"dropped: .*twice .*same task, method and seed as .*fine",
        r"not complete: R\+D SAC 1",
        r"several versions of cvflows: 0\.0\.9",
        r"SAC on R\+D mixes budgets of 10,000 and 20,000 steps",
    ):
        assert re.search(words, notes), words
    with pytest.raises(ArgumentError, match="`runs`: expected at least one run that can be read"):
        load_runs([tmp_path / "spoilt"])


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
