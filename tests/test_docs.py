"""What the documents say is true: their Python runs, their commands exist, the README stays short."""

import csv
import re
from pathlib import Path

import pytest
from benchmarks.learning_figures import summary

from cvflows.agents.methods import METHODS
from cvflows.cli import COMMANDS
from cvflows.tasks.catalogue import TASKS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPETS = [
    pytest.param(code, id=f"{page.name}-{index}", marks=[] if page.name == "README.md" else pytest.mark.thorough)
    for page in PAGES
    for index, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_python_in_the_docs_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "<docs>", "exec"), {})


def test_readme_is_short_and_opens_with_what_it_is_for():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 45
    assert text.index("In many control problems") < text.index("make test") < text.index("make demo")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_named_in_the_docs_exist(page):
    text = page.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for target in re.findall(r"(?:`|^ +)make ([a-z-]+)\b", text, re.MULTILINE):
        assert target in targets, target
    for command in re.findall(r"^\s+(?:\.venv/bin/)?cvflows ([a-z]+)", text, re.MULTILINE):
        assert command in COMMANDS, command
    for link in re.findall(r"\]\(([^)#h][^)]*)\)", text):
        assert (page.parent / link).exists(), link


def test_architecture_page_lists_every_file():
    text = (ROOT / "docs" / "architecture.md").read_text()
    for path in (ROOT / "src" / "cvflows").rglob("*.py"):
        name = path.relative_to(ROOT / "src" / "cvflows").as_posix()
        if path.name.startswith("__"):
            continue
        assert name in text or f"{name.split('/')[0]}/`" in text, f"docs/architecture.md does not mention {name}"


def test_results_page_shows_the_committed_table():
    with (ROOT / "results" / "learning.csv").open() as file:
        table = summary(list(csv.DictReader(file)))
    assert table in (ROOT / "docs" / "results.md").read_text()


def test_every_method_ran_on_every_task_of_the_paper():
    with (ROOT / "results" / "matrix.csv").open() as file:
        rows = list(csv.DictReader(file))
    tasks = [task.name for task in TASKS.values() if task.in_paper]
    assert {(row["method"], row["task"]) for row in rows} == {(method, task) for method in METHODS for task in tasks}
    assert {(row["steps"], row["finite"]) for row in rows} == {("2000", "1")}
