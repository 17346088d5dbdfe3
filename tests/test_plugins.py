"""Modules that add methods: the worked example of the docs, from the command line, with settings of its own."""

import json
import re
import sys
from pathlib import Path

import pytest

from cvflows.agents.methods import METHODS
from cvflows.cli import main
from cvflows.plugins import GROUP, VARIABLE, load_plugins
from cvflows.tasks.catalogue import TASKS

EXTEND = Path(__file__).parent.parent / "docs" / "extend"
RUN = ["R+L2", "--method", "AWR+CVFlow", "--kind", "orb", "--steps", "150", "--final-episodes", "1"]
SMALL = ["--set", "hidden=8,8", "--set", "learning_starts=50", "--set", "batch=16", "--set", "temperature=0.5"]


def write_shown(name, page):
    """Write a file as a page shows it."""
    Path(name).write_text(re.search(rf"`{name}`:\n\n```python\n(.*?)```", page.read_text(), re.DOTALL)[1])


@pytest.fixture
def rule(tmp_path, monkeypatch):
    """The file that the page shows, in the current folder, named by the environment."""
    monkeypatch.chdir(tmp_path)
    write_shown("awr.py", EXTEND / "rule.md")
    monkeypatch.setenv(VARIABLE, "awr.py")
    yield
    METHODS.pop("AWR+CVFlow", None)


def test_a_rule_in_one_file_has_its_own_settings_on_the_command_line(rule, capsys):
    assert main(["settings", "AWR+CVFlow", "--json"]) == 0
    names = {row["name"] for row in json.loads(capsys.readouterr().out)["settings"]}
    assert "temperature" in names
    assert "target_entropy" not in names
    assert main(["train", *RUN, "--set", "temperature=-1"]) == 2
    assert "`temperature`: expected a number in (0, 1e+06]" in capsys.readouterr().err
    assert main(["train", *RUN, "--set", "temperatur=1"]) == 2
    assert "did you mean 'temperature'" in capsys.readouterr().err
    assert main(["train", *RUN, *SMALL, "--out", "run", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["method"], figures["training"]["cv_percent"]) == ("AWR+CVFlow", 0)
    assert json.loads(Path("run/config.json").read_text())["settings"]["temperature"] == 0.5
    assert main(["evaluate", "run", "--episodes", "1", "--json"]) == 0


def test_a_task_in_one_file_is_known_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(VARIABLE, "crane")
    write_shown("crane.py", EXTEND / "task.md")
    try:
        assert main(["draw", "Crane+M", "--out", "pictures"]) == 0
        assert Path("pictures/Crane+M.png").exists()
    finally:
        TASKS.pop("Crane+M", None)
        sys.modules.pop("crane", None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.py", "CVFLOWS_PLUGINS=nowhere.py cannot be loaded: FileNotFoundError"),
        ("no_such_module", "cannot be loaded: ModuleNotFoundError"),
        ("broken.py", "cannot be loaded: ZeroDivisionError"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named_in_one_line(name, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text("1 / 0")
    monkeypatch.setenv(VARIABLE, name)
    assert main(["tasks"]) == 2
    text = capsys.readouterr().err
    assert message in text
    assert text.count("\n") == 1


def test_installed_packages_name_theirs(tmp_path, monkeypatch):
    (tmp_path / "their_rules.py").write_text("import sys\nsys.modules[__name__].LOADED = True\n")
    information = tmp_path / "theirs-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{GROUP}]\nrules = their_rules\n")
    monkeypatch.syspath_prepend(tmp_path)
    load_plugins()
    import their_rules

    assert their_rules.LOADED


def test_two_methods_of_one_name_are_refused():
    import cvflows as cv

    known = METHODS["SAC"]
    assert cv.add_method(known) is known
    with pytest.raises(ValueError, match="one that no other method has"):
        cv.add_method(cv.Method("SAC", known.algorithm, known.decoder, "another"))
