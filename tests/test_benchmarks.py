"""The benchmark harness: bars, JSON, exit codes that tell, provenance; benchmarks are listed and chosen by words."""

import json
import os
import subprocess
import sys

import pytest
from benchmarks import __main__ as everything
from benchmarks import harness, matrix
from benchmarks.catalogue import BENCHMARKS
from benchmarks.harness import Bar, commit_of, constants, main, need, provenance, seconds

from cvflows.runs.identity import processor

BOUND = 2.0
"""A constant, as benchmarks have them."""


def run(quick):
    return {"figure": 3.0, "bars": [Bar("fast", 3.0, BOUND), Bar("small", 3.0, BOUND, at_least=False)]}


def call(monkeypatch, *words, **options):
    monkeypatch.setattr(sys, "argv", ["x", *words])
    main("x", run, lambda report: "table", **options)


def test_json_lists_the_bars(monkeypatch, capsys):
    call(monkeypatch, "--json")
    report = json.loads(capsys.readouterr().out)
    assert report["figure"] == 3.0
    assert [(bar["name"], bar["ok"]) for bar in report["bars"]] == [("fast", True), ("small", False)]
    assert set(report["bars"][0]) == {"name", "value", "bound", "ok"}


def test_check_fails_on_a_missed_bar(monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        call(monkeypatch, "--check")
    assert stop.value.code == 1
    assert "MISSED small" in capsys.readouterr().out


def test_missing_peer_names_its_extra():
    with pytest.raises(SystemExit, match=r"pip install 'cvflows\[bench\]'"):
        need("a_package_nobody_has", "bench")


def test_median_of_repeats():
    calls = []
    assert seconds(lambda: calls.append(1), repeats=5, warm=1) >= 0
    assert len(calls) == 6


def git(folder, *words):
    person = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    return subprocess.run(["git", *person, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_commit_and_whether_the_code_differs_from_it(tmp_path):
    assert commit_of(tmp_path) == {"commit": None, "dirty": None}
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("a = 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    head = git(tmp_path, "rev-parse", "HEAD").strip()
    assert commit_of(tmp_path) == {"commit": head, "dirty": False}
    (tmp_path / "results.json").write_text("{}")
    assert commit_of(tmp_path)["dirty"] is False  # results are not code
    (tmp_path / "src" / "a.py").write_text("a = 2\n")
    assert commit_of(tmp_path) == {"commit": head, "dirty": True}
    assert commit_of(tmp_path / "src") == {"commit": None, "dirty": None}  # a folder in another project's checkout


def test_without_git_there_is_no_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit_of(harness.ROOT) == {"commit": None, "dirty": None}


def test_provenance_names_code_command_machine_and_time():
    import jax

    import cvflows

    found = provenance()
    assert set(found) == {"commit", "dirty", "version", "command", "machine", "date"}
    assert found["version"] == cvflows.__version__
    assert found["machine"]["jax"] == jax.__version__
    assert found["machine"]["cores"] == os.cpu_count()
    assert found["date"].endswith("+00:00")


@pytest.mark.skipif(not os.path.exists("/proc/cpuinfo"), reason="Linux only")
def test_processor_is_the_model_that_linux_tells():
    with open("/proc/cpuinfo") as file:
        text = file.read()
    assert processor() in text or "model name" not in text


def test_command_says_what_the_environment_sets(monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["/some/where/python3", "-m", "benchmarks.x", "--out", "a b"])
    monkeypatch.setenv("CVFLOWS_THREADS", "2")
    assert harness.command() == "CVFLOWS_THREADS=2 python -m benchmarks.x --out 'a b'"


def test_reports_are_kept_with_their_provenance(monkeypatch, tmp_path, capsys):
    call(monkeypatch, "--out", str(tmp_path / "new"), revision=4)
    report = json.loads((tmp_path / "new" / "x.json").read_text())
    assert set(provenance()) <= set(report)
    assert (report["revision"], report["figure"]) == (4, 3.0)
    assert constants(run)["BOUND"] == BOUND
    before = report["fingerprint"]
    monkeypatch.setattr(sys.modules[__name__], "BOUND", 5.0)
    call(monkeypatch, "--out", str(tmp_path))
    assert json.loads((tmp_path / "x.json").read_text())["fingerprint"] != before


def test_a_quick_look_is_not_kept(monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        call(monkeypatch, "--quick", "--out", str(tmp_path))
    assert stop.value.code == 2
    assert not list(tmp_path.iterdir())


def test_a_method_without_rows_is_not_run_in_the_matrix(monkeypatch):
    """A new method fails nothing: the table says so."""
    every = [("SAC", "R+D"), ("New", "R+D")]
    monkeypatch.setattr(matrix, "all_cells", lambda: every)
    cells = [{"method": "SAC", "task": "R+D", "training": {"cv_percent": 12.34}}]
    assert matrix.table({"cells": cells}).splitlines()[2:] == ["| SAC | 12.3 |", "| New | not run |"]


def test_every_cell_of_the_matrix_has_settings():
    for method in ("SAC+CVFlow", "PPO+CVFlow", "NFW"):
        config = matrix.cell_config(method, "R+D")
        assert config["steps"] == matrix.STEPS
        assert config["settings"]["hidden"] == [32, 32]


def test_without_words_benchmarks_are_listed(capsys, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_: pytest.fail("something ran"))
    assert everything.main([]) == 0
    text = capsys.readouterr().out
    for name, found in BENCHMARKS.items():
        assert f"\n  writes results/{name}.json" in text
        assert found.question in text


def test_words_choose_what_runs(monkeypatch, capsys):
    ran = []

    def pretend(words):
        ran.append(words[2:])
        return subprocess.CompletedProcess(words, 3 if "latency" in words[2] else 0)

    monkeypatch.setattr(subprocess, "run", pretend)
    assert everything.main(["--quick"]) == 3
    assert ran == [[f"benchmarks.{name}", "--quick"] for name in BENCHMARKS]
    assert "failed: latency" in capsys.readouterr().err
    ran.clear()
    assert everything.main(["--out", "results"]) == 3
    usual = [name for name, found in BENCHMARKS.items() if found.target == "bench"]
    assert ran == [[f"benchmarks.{name}", "--out", "results"] for name in usual]
    assert "learning" not in usual
    with pytest.raises(SystemExit):
        everything.main(["nothing"])
