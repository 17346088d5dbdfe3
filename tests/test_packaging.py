"""The package: every module imports, one version number, files of versions that agree with pyproject, a typed wheel."""

import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import cvflows
from cvflows.errors import MissingExtraError
from cvflows.runs.launch import Ray
from cvflows.runs.mirror import Mirror

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = sorted(module.name for module in pkgutil.walk_packages(cvflows.__path__, "cvflows."))


def pins(name):
    """{package: version} of a file of exact versions."""
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {package.lower().replace("_", "-"): pinned for package, pinned in pairs}


def number(text):
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_every_module_imports(name):
    importlib.import_module(name)


def test_the_version_is_written_once():
    assert "version" not in PROJECT
    assert version("cvflows") == cvflows.__version__


@pytest.mark.parametrize("requirement", PROJECT["dependencies"])
def test_stated_lowest_versions_are_those_that_are_tested(requirement):
    package, _, least = re.sub(r"\[.*\]", "", requirement).partition(">=")
    lowest, tested = (pins(name)[package.lower()] for name in ("lowest.txt", "tested.txt"))
    length = len(number(least))
    assert number(lowest)[:length] == number(least), "make requirements"
    assert number(tested) >= number(lowest)


@pytest.mark.parametrize(
    ("package", "use", "extra"), [("fsspec", lambda: Mirror("memory://x"), "ray"), ("ray", lambda: Ray(), "ray")]
)
def test_a_missing_extra_is_named(package, use, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"needs .*{package}: pip install 'cvflows\[{extra}\]'"):
        use()


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {cvflows.__version__}\n" in text
    assert f"\n## {cvflows.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_the_workflow_and_the_hooks_run_what_the_makefile_has():
    makefile = (ROOT / "Makefile").read_text()
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    targets = re.findall(r"run: make ([a-z-]+)", workflow)
    targets += re.search(r"target: \[(.*?)\]", workflow)[1].split(", ")
    assert {"test", "test-lowest-jax", "test-thorough", "test-extras", "test-lowest"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for python in ("3.11", "3.12", "3.13", "3.14"):
        assert f'"{python}"' in workflow
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    for linter in re.findall(r"\$\(BIN\)/(ruff .*?|mypy)(?: \.)?\n", makefile):
        assert f".venv/bin/{linter}" in hooks, linter


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    code, _, problem = run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", folder, ROOT)
    assert code == 0, problem
    (found,) = folder.glob("cvflows-*.whl")
    return found


@pytest.mark.thorough
def test_the_wheel_is_typed_and_carries_its_version(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert wheel.name.startswith(f"cvflows-{cvflows.__version__}-")
    assert "cvflows/py.typed" in names
    missing = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "cvflows").rglob("*.py")} - names
    assert not missing


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory):
    """The folder of commands of an environment with nothing in it but the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True)
    code, _, problem = run(folder / "bin" / "python", "-m", "pip", "install", "-q", wheel)
    assert code == 0, problem
    return folder / "bin"


PROJECT_OF_FIVE_LINES = """
import cvflows as cv
task = cv.Task.from_env("Pendulum-v1", cv.Orthoplex(dim=1, bound=4.0), context=[2])
agent = cv.Agent("PPO+CVFlow", task, num_envs=2, rollout=64).learn(256, progress=False)
print(agent.evaluate(1)["return"])
agent.save("agent")
"""


@pytest.mark.extras
def test_the_wheel_works_in_a_clean_environment(clean, tmp_path):
    assert run(clean / "python", "-m", "pip", "check", cwd=tmp_path)[0] == 0
    for door in ([clean / "python", "-m", "cvflows"], [clean / "cvflows"]):
        assert run(*door, "--version", cwd=tmp_path) == (0, f"cvflows {cvflows.__version__}\n", "")
    code, said, problem = run(clean / "cvflows", "doctor", "--json", cwd=tmp_path)
    assert code == 0, problem
    assert "pip install 'cvflows[report]'" in said
    code, _, problem = run(clean / "python", "-c", PROJECT_OF_FIVE_LINES, cwd=tmp_path)
    assert code == 0, problem
    assert (tmp_path / "agent" / "checkpoint.json").exists()


@pytest.mark.extras
def test_what_needs_an_extra_says_so_in_a_clean_environment(clean, tmp_path):
    train = (clean / "cvflows", "-q", "train", "R+L2", "--method", "PPO+CVFlow", "--steps", 4096, "--num-envs", 8)
    code, _, problem = run(*train, "--out", "run", cwd=tmp_path)
    assert code == 0, problem
    for words, extra in (
        (("report", "run", "--no-maps"), "report"),
        (("export", "run", "--format", "onnx"), "export"),
        (("train", "R+L2", "--method", "PPO+CVFlow", "--out", "other", "--wandb", "project"), "wandb"),
        (("suite", "--tasks", "R+L2", "--methods", "SAC", "--launcher", "ray"), "ray"),
    ):
        code, _, problem = run(clean / "cvflows", *words, cwd=tmp_path)
        assert code == 2, problem
        assert f"pip install 'cvflows[{extra}]'" in problem
    assert (tmp_path / "report_figures" / "learning.png").exists()


@pytest.mark.extras
def test_extras_agree_with_the_rest_and_with_each_other(clean, wheel):
    """The installer finds versions for all at once; nothing is installed. torch is too large even to ask for."""
    asked = {name for name, needs in PROJECT["optional-dependencies"].items() if not re.search("torch|sb3", str(needs))}
    assert asked >= {"report", "export", "solver", "wandb", "ray", "notebooks", "docs", "dev"}
    words = ("-m", "pip", "install", "-q", "--dry-run", f"{wheel}[{','.join(sorted(asked))}]")
    code, _, problem = run(clean / "python", *words)
    assert code == 0, problem
