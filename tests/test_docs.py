"""What the documents say is true: their Python runs, their commands exist, the README stays short."""

import csv
import inspect
import json
import re
from pathlib import Path

import pytest
from benchmarks import result_pages
from benchmarks.catalogue import BENCHMARKS, table
from benchmarks.journal import read_rows
from benchmarks.learning_figures import summary
from benchmarks.matrix import all_cells
from benchmarks.method_pages import methods_of_pages, section

import cvflows
import cvflows.errors
from cvflows.agents.methods import METHODS
from cvflows.cli import COMMANDS, main
from cvflows.constraints.sets.registry import SETS
from cvflows.maps.kinds import KINDS
from cvflows.runs.grid import read_grids
from cvflows.tasks.catalogue import TASKS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXTRAS = ("stable_baselines3",)
"""What a block imports that only `make test-extras` installs."""
OF_EXTRAS = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]
BUDGET = re.compile(r"\.learn\((\d[\d_]{3,})")
"""Steps of training, where there are a thousand or more: cut to `FEW`, and all else as it is shown."""
FEW = ".learn(300"


def program(page, *, extras):
    """The Python of a page as one program, since its blocks build on each other.

    Without extras, the blocks that need none; with extras, those that need one and what is before them.
    """
    blocks = PYTHON.findall(page.read_text())
    heavy = [index for index, code in enumerate(blocks) if any(name in code for name in EXTRAS)]
    if extras:
        return "".join(blocks[: max(heavy) + 1]) if heavy else ""
    return "".join(code for index, code in enumerate(blocks) if index not in heavy)


PROGRAMS = [
    pytest.param(page, code, id=page.relative_to(ROOT).as_posix() + (", extras" if extras else ""), marks=marks)
    for extras in (False, True)
    for page in PAGES
    if (code := program(page, extras=extras))
    for marks in ([] if page == README else OF_EXTRAS if extras else [pytest.mark.thorough],)
]


@pytest.fixture
def registries():
    """What a page adds to them is forgotten."""
    known = [(registry, dict(registry)) for registry in (METHODS, KINDS, TASKS, SETS)]
    yield
    for registry, before in known:
        registry.clear()
        registry.update(before)


@pytest.mark.parametrize(("page", "code"), PROGRAMS)
@pytest.mark.filterwarnings("ignore::cvflows.errors.NothingLearnedWarning")  # budgets are cut
def test_python_in_the_docs_runs(page, code, tmp_path, monkeypatch, registries):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, shown in re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        Path(name).write_text(shown)
    exec(compile(BUDGET.sub(FEW, code), page.name, "exec"), {})


def test_every_fenced_block_is_of_a_kind_that_is_tested():
    for page in PAGES:
        fences = re.findall(r"^ *```(.*)$", page.read_text(), re.MULTILINE)
        assert set(fences[::2]) <= {"python", "toml"}, page
        assert set(fences[1::2]) <= {""}, page


@pytest.mark.parametrize("page", [page for page in PAGES if "```toml" in page.read_text()], ids=lambda page: page.name)
def test_grids_in_the_docs_are_grids(page, tmp_path):
    for index, text in enumerate(re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)):
        (tmp_path / f"{index}.toml").write_text(text)
        grids = read_grids(tmp_path / f"{index}.toml")
        assert all(grid.configs() for grid in grids)


def test_readme_is_short_and_opens_with_what_it_is_for():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 52
    assert text.index("In many control problems") < text.index("make test") < text.index("make demo")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_named_in_the_docs_exist(page):
    text = page.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for target in re.findall(r"(?:`|^ +)make ([a-z-]+)\b", text, re.MULTILINE):
        assert target in targets, target
    for command in re.findall(r"^\s+(?:\.venv/bin/)?cvflows ([a-z]+)", text, re.MULTILINE):
        assert command in COMMANDS, command
    for link in re.findall(r"\]\(([^)#h][^)#]*)[^)]*\)", text):
        assert (page.parent / link).exists(), link


def test_the_reference_has_every_public_name_once():
    text = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    assert sorted(re.findall(r"^::: cvflows\.(\w+)$", text, re.MULTILINE)) == cvflows.__all__
    described = re.findall(r"^::: cvflows\.commands\.\w+\.(\w+)$", text, re.MULTILINE)
    assert sorted(described) == sorted(COMMANDS)
    errors = re.findall(r"^::: cvflows\.errors\.(\w+)$", text, re.MULTILINE)
    assert sorted(errors) == sorted(re.findall(r"^class (\w+)", inspect.getsource(cvflows.errors), re.MULTILINE))
    overview = (ROOT / "docs" / "reference" / "README.md").read_text()
    assert all(f"`{name}`" in overview for name in cvflows.__all__)


def test_lists_and_tables_follow_an_empty_line():
    """Code hosts do without; the site would run them together."""
    for page in PAGES:
        before = ""
        for line in re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE).splitlines():
            begins = re.match(r"(- |\d+\. |\|)", line)
            if begins and before and not re.match(r"( *- | *\d+\. |\||  |#)", before):
                raise AssertionError(f"{page}: {line}")
            before = line


@pytest.fixture
def options(capsys, monkeypatch):
    """Command → what its help says."""
    monkeypatch.setenv("COLUMNS", "200")
    said = {}
    for name in COMMANDS:
        with pytest.raises(SystemExit):
            main([name, "--help"])
        said[name] = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    return said


def test_options_of_commands_in_the_docs_exist(options):
    shown = re.compile(r"^ +(?:\w+=\S+ )*(?:\.venv/bin/)?cvflows ([a-z]+)([^#\n]*)", re.MULTILINE)
    found = 0
    for page in PAGES:
        for command, rest in shown.findall(page.read_text()):
            for option in re.findall(r"(?<= )--?[a-z][a-z-]*", rest.split("&&")[0]):
                assert re.search(rf"(?<![\w-]){option}\b", options[command]), f"{page}: cvflows {command} {option}"
                found += 1
    assert found > 50


def test_architecture_page_lists_every_file():
    text = (ROOT / "docs" / "architecture.md").read_text()
    for path in (ROOT / "src" / "cvflows").rglob("*.py"):
        name = path.relative_to(ROOT / "src" / "cvflows").as_posix()
        if path.name.startswith("__"):
            continue
        assert name in text or f"{name.split('/')[0]}/`" in text, f"docs/architecture.md does not mention {name}"


def test_results_page_shows_the_committed_table():
    with (ROOT / "results" / "learning.csv").open() as file:
        learned = summary(list(csv.DictReader(file)))
    assert learned in (ROOT / "docs" / "results.md").read_text()


@pytest.mark.parametrize("name", result_pages.PAGES)
def test_pages_of_results_show_the_committed_figures(name):
    """`python -m benchmarks.result_pages` writes them."""
    text = (ROOT / name).read_text()
    assert result_pages.PLACE.search(text)
    assert result_pages.filled(text) == text


def test_pages_of_methods_show_the_committed_figures():
    """`python -m benchmarks.method_pages` writes them."""
    pages = methods_of_pages()
    assert {name for names in pages.values() for name in names} >= set(METHODS) - {"SAC", "TD3", "DDPG"}
    for page, methods in pages.items():
        assert section(methods) in page.read_text(), page.name


def test_cells_of_the_matrix_ran_to_their_end():
    """Once each; a method without rows is listed by `python -m benchmarks.matrix --missing`, and fails nothing."""
    with (ROOT / "results" / "matrix.csv").open() as file:
        rows = list(csv.DictReader(file))
    cells = [(row["method"], row["task"]) for row in rows]
    assert len(set(cells)) == len(cells) > 0
    assert set(cells) <= set(all_cells())
    assert {(row["steps"], row["finite"]) for row in rows} == {("2000", "1")}


def test_every_file_of_results_is_listed_with_a_command_that_exists():
    text = (ROOT / "results" / "README.md").read_text()
    assert table() in text
    for path in (ROOT / "results").iterdir():
        assert path.name == "README.md" or f"`{path.name}`" in text, path.name
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for benchmark in BENCHMARKS.values():
        assert benchmark.target in targets
        assert f'main("{benchmark.name}"' in (ROOT / "benchmarks" / f"{benchmark.name}.py").read_text()
        page = (ROOT / "docs" / benchmark.quoted).read_text()
        assert f"benchmarks.{benchmark.name}" in page or f"results/{benchmark.name}" in page, benchmark.quoted
        for picture in benchmark.pictures:
            assert (ROOT / "docs" / "images" / picture).exists(), picture


def test_every_benchmark_is_in_the_catalogue():
    sources = {path.stem: path.read_text() for path in (ROOT / "benchmarks").glob("*.py")}
    assert {name for name, text in sources.items() if f'main("{name}"' in text} == set(BENCHMARKS)


def test_everything_in_results_says_where_it_comes_from():
    """Commit or that it was not recorded, command and machine; what cannot be repeated says why."""
    for path in (ROOT / "results").glob("*.json*"):
        rows = read_rows(path)[0] if path.suffix == ".jsonl" else [json.loads(path.read_text())]
        for row in rows:
            assert {"commit", "dirty", "version", "command", "machine", "date", "fingerprint", "revision"} <= set(row)
            assert row["commit"] or row["provenance"] == "before provenance was recorded", path
            assert row["command"].startswith("python -m benchmarks") or row["commit"], path
            assert (row.get("repeatable") is False) == ("reason" in row), path
