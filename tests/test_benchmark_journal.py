"""Journals of benchmarks: they skip only what still holds."""

import json
import os
import sys

import pytest
from benchmarks.harness import main, provenance
from benchmarks.journal import Journal, read_rows, run_parts, skipped, source

from cvflows.threads import variables


def double(number, note=""):
    return {"twice": 2 * number}


def journal_at(path, revision=1, **options):
    return Journal(path, "x", revision, **options)


def numbers(journal, *jobs, config=None):
    rows = run_parts(double, jobs, "doubling", journal, config=config)
    return [row["figures"]["twice"] for row in rows]


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Parts are worked on in this process; the list holds those that were."""
    calls = []

    class Pool:
        def __init__(self, *_, **__): ...
        def __enter__(self):
            return self

        def __exit__(self, *_): ...
        def submit(self, work, *job):
            calls.append(job)
            done = Future()
            try:
                done.set_result(work(*job))
            except ArithmeticError as error:
                done.set_exception(error)
            return done

    from concurrent.futures import Future

    monkeypatch.setattr("benchmarks.journal.ProcessPoolExecutor", Pool)
    for name in variables(1):  # `run_parts` sets them: they are put back
        monkeypatch.setenv(name, os.environ.get(name, ""))
    return calls


def test_finished_parts_are_skipped_and_listed_with_their_commit(tmp_path, measured, capsys):
    path = tmp_path / "new" / "x.jsonl"
    assert numbers(journal_at(path), (1,), (2,)) == [2, 4]
    assert measured == [(1,), (2,)]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(set(provenance()) | {"part", "fingerprint", "revision", "figures"} == set(row) for row in rows)
    capsys.readouterr()
    assert numbers(journal_at(path), (1,), (2,), (3,)) == [2, 4, 6]
    assert measured == [(1,), (2,), (3,)]
    said = capsys.readouterr().err
    assert "skipping 2 of 3 parts" in said
    assert f"commit {provenance()['commit'][:12]}" in said if provenance()["commit"] else "unknown" in said


def test_a_part_is_measured_again_when_its_settings_or_the_revision_change(tmp_path, measured):
    path = tmp_path / "x.jsonl"
    numbers(journal_at(path), (1,), config=lambda number: {"rate": 0.1})
    numbers(journal_at(path), (1,), config=lambda number: {"rate": 0.1})
    assert len(measured) == 1
    numbers(journal_at(path), (1,), config=lambda number: {"rate": 0.2})
    assert len(measured) == 2
    numbers(journal_at(path, revision=2), (1,), config=lambda number: {"rate": 0.2})
    assert len(measured) == 3
    numbers(journal_at(path), (1,), config=lambda number: {"rate": 0.1})  # its first row still holds
    assert len(measured) == 3


def test_commit_and_machine_do_not_decide(tmp_path, measured):
    path = tmp_path / "x.jsonl"
    numbers(journal_at(path), (1,))
    row = json.loads(path.read_text())
    path.write_text(json.dumps({**row, "commit": "0" * 40, "machine": None}) + "\n")
    numbers(journal_at(path), (1,))
    assert len(measured) == 1


def test_a_row_of_unknown_settings_does_not_count(tmp_path, measured):
    path = tmp_path / "x.jsonl"
    numbers(journal_at(path), (1,))
    row = json.loads(path.read_text())
    path.write_text(json.dumps({**row, "fingerprint": None}) + "\n")
    numbers(journal_at(path), (1,))
    assert len(measured) == 2


@pytest.mark.parametrize("kept", [1, 20, -2, -1])
def test_a_last_line_cut_off_by_a_kill_is_tolerated(tmp_path, measured, kept):
    """Whatever is left of it; the journal is whole again after the next part."""
    path = tmp_path / "x.jsonl"
    numbers(journal_at(path), (1,), (2,))
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:kept])
    assert numbers(journal_at(path), (1,), (2,), (3,)) == [2, 4, 6]
    lost = [] if kept == -1 else [(int(json.loads(second)["part"]),)]  # -1: only its line end was lost
    assert measured[2:] == [*lost, (3,)]
    rows, _ = read_rows(path)
    assert sorted(row["part"] for row in rows) == ["1", "2", "3"]


@pytest.mark.parametrize("spoilt", ['{"part": "1", "fig', "[]", "3", '{"part": "1"}', ""])
def test_any_other_line_that_cannot_be_read_is_named(tmp_path, measured, spoilt):
    path = tmp_path / "x.jsonl"
    numbers(journal_at(path), (1,), (2,))
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{spoilt}\n{second}\n")
    with pytest.raises(SystemExit, match=r"x\.jsonl, line 2: not a row of a journal"):
        journal_at(path)
    assert path.read_text().splitlines()[1] == spoilt


def test_rows_that_another_process_wrote_meanwhile_stay(tmp_path, measured):
    path = tmp_path / "x.jsonl"
    numbers(journal_at(path), (1,))
    mine, other = journal_at(path), journal_at(path)
    numbers(other, (2,))
    numbers(mine, (3,))
    assert [row["part"] for row in read_rows(path)[0]] == ["1", "2", "3"]


def test_missing_parts_are_listed_and_not_run(tmp_path, measured, capsys):
    path = tmp_path / "x.jsonl"
    numbers(journal_at(path), (1,), (2,), config=lambda number: {})
    capsys.readouterr()
    changed = {2: {"rate": 0.2}}
    with pytest.raises(SystemExit) as stop:
        numbers(journal_at(path, only_list=True), (1,), (2,), (3,), config=lambda number: changed.get(number, {}))
    assert stop.value.code is None
    assert capsys.readouterr().out.splitlines() == ["2: its settings have changed", "3: not run"]
    assert len(measured) == 2


def call(monkeypatch, run, *words):
    monkeypatch.setattr(sys, "argv", ["x", *words])
    main("x", run, lambda report: "table", parts="numbers")


def test_a_journal_of_a_benchmark_stands_beside_its_report(monkeypatch, tmp_path, measured, capsys):
    def in_parts(quick, journal):
        rows = run_parts(double, [(1,), (2,)], "doubling", journal)
        return {"numbers": [row["figures"] for row in rows], "total": 6, "bars": []}

    for _ in range(2):
        call(monkeypatch, in_parts, "--out", str(tmp_path))
    assert len(measured) == 2
    report = json.loads((tmp_path / "x.json").read_text())
    assert (report["rows"], report["total"], "numbers" in report) == ("x.jsonl", 6, False)
    call(monkeypatch, in_parts, "--quick")
    assert len(measured) == 4  # nothing is kept of it, and nothing skipped


def halve(number):
    return {"part": 1 / number}


def test_a_part_that_fails_costs_only_itself(tmp_path, measured):
    path = tmp_path / "x.jsonl"
    with pytest.raises(RuntimeError, match=r"1 of 3 parts failed: 0 \(ZeroDivisionError") as found:
        run_parts(halve, [(1,), (0,), (2,)], "halving", journal_at(path))
    assert isinstance(found.value.__cause__, ZeroDivisionError)
    assert sorted(row["part"] for row in read_rows(path)[0]) == ["1", "2"]


def test_parts_run_in_processes_of_their_own(tmp_path):
    assert numbers(journal_at(tmp_path / "x.jsonl"), (1,), (2,)) == [2, 4]


def test_columns_that_lead_to_a_row():
    known = {"fingerprint": "abc", "commit": "def"}
    assert source(known) == {"part_fingerprint": "abc", "commit": "def", "repeatable": "yes"}
    lost = {"fingerprint": None, "commit": None, "repeatable": False}
    assert source(lost) == {"part_fingerprint": "", "commit": "", "repeatable": "no"}
    assert "1 of commit unknown" in skipped([{**lost, "part": "a"}], 2)
    assert "1 of commit def+" in skipped([{**known, "part": "a", "dirty": True}], 2)
