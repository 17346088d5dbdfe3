"""The benchmark harness: bars, JSON, and an exit code that tells."""

import json
import sys

import pytest
from benchmarks.harness import Bar, main, need, seconds


def run(quick):
    return {"figure": 3.0, "bars": [Bar("fast", 3.0, 2.0), Bar("small", 3.0, 2.0, at_least=False)]}


def test_json_lists_the_bars(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["x", "--json"])
    main("x", run, str)
    report = json.loads(capsys.readouterr().out)
    assert report["figure"] == 3.0
    assert [(bar["name"], bar["ok"]) for bar in report["bars"]] == [("fast", True), ("small", False)]
    assert set(report["bars"][0]) == {"name", "value", "bound", "ok"}


def test_check_fails_on_a_missed_bar(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["x", "--check"])
    with pytest.raises(SystemExit) as stop:
        main("x", run, lambda report: "table")
    assert stop.value.code == 1
    assert "MISSED small" in capsys.readouterr().out


def test_missing_peer_names_its_extra():
    with pytest.raises(SystemExit, match=r"pip install 'cvflows\[bench\]'"):
        need("a_package_nobody_has", "bench")


def test_median_of_repeats():
    calls = []
    assert seconds(lambda: calls.append(1), repeats=5, warm=1) >= 0
    assert len(calls) == 6
