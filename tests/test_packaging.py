"""The package: every module imports, one version number, files of versions that agree with pyproject, a typed wheel."""

import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import cvflows

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


@pytest.mark.thorough
def test_the_wheel_is_typed_and_carries_its_version(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("cvflows-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert wheel.name.startswith(f"cvflows-{cvflows.__version__}-")
    assert "cvflows/py.typed" in names
    missing = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "cvflows").rglob("*.py")} - names
    assert not missing
