"""Commands that export a controller and check one."""

import json
import shutil

import pytest

from cvflows.cli import main
from exports import agent_of

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return agent_of("R+L2", "SAC+CVFlow").save(tmp_path_factory.mktemp("run") / "run")


@needs_compiler
def test_export_then_check(run, tmp_path, capsys):
    out = tmp_path / "robot"
    assert main(["export", str(run), "--out", str(out), "--limits=-9:9", "--fallback", "0.1,0.05", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["task"], figures["fallback"], figures["certified"]) == ("R+L2", "fixed", True)
    assert figures["parity"]["fallback_range"] > 0
    names = {path.name for path in out.iterdir()}
    assert names == {"controller.c", "controller.h", "controller.json", "parity.json", "README.md"}
    assert main(["check", str(out), "--count", "4000", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["forbidden"], report["inputs"]) == (True, 0, 4000)
    assert main(["check", str(out), "--count", "1000"]) == 0
    assert "1,000 inputs: 0 forbidden actions" in capsys.readouterr().out


def test_export_says_what_it_did(run, capsys):
    assert main(["export", str(run)]) == 0
    said = capsys.readouterr()
    assert "allowed by construction, and checked; fallback: last, then anchor, then fixed" in said.out
    assert (run / "controller" / "controller.h").exists()
    assert "## What is promised" in (run / "controller" / "README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--fallback", "first"], "`fallback`: expected last, anchor, or an action as in 0,0,0.5, got 'first'"),
        (["--fallback", "0,0,0"], "`fallback`: expected last, anchor, or an action of 2 entries"),
        (["--limits=1"], "`limits`: expected LOW:HIGH"),
        (["--limits=1:0"], "`limits`: expected 9 lower limits"),
    ],
)
def test_export_refuses_in_one_line(arguments, named, run, tmp_path, capsys):
    assert main(["export", str(run), "--out", str(tmp_path / "out"), *arguments]) == 2
    said = capsys.readouterr().err
    assert named in said
    assert said.count("\n") == 1


def test_check_refuses_in_one_line(tmp_path, capsys):
    assert main(["check", str(tmp_path), "--count", "0"]) == 2
    assert main(["check", str(tmp_path)]) == 2
    assert "is this an exported controller?" in capsys.readouterr().err
