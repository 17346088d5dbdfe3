"""Imports follow the data: task → constraint → map → agent → run → report → command line."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "cvflows"
MAY_IMPORT = {
    "errors": set(),
    "files": {"errors"},
    "constraints": {"errors"},
    "maps": {"errors", "files", "constraints"},
    "agents": {"errors", "constraints", "maps"},
    "envs": {"errors", "constraints", "maps"},
    "tasks": {"errors", "constraints", "envs"},
    "runs": {"terminal", "errors", "files", "constraints", "maps", "agents", "envs", "tasks"},
    "reports": {"errors", "files", "constraints", "maps", "agents", "envs", "tasks", "runs"},
    "terminal": set(),
    "commands": {"terminal", "errors", "constraints", "maps", "agents", "envs", "tasks", "runs", "reports"},
    "cli": {"commands", "errors"},
}
HEAVY = {
    "ray",
    "fsspec",
    "plotly",
    "torch",
    "stable_baselines3",
    "sbx",
    "cvxpy",
    "wandb",
    "onnx",
    "pickle",
    "cloudpickle",
    "dill",
}
MAY_NEED_AN_EXTRA = {
    "constraints/solver.py": {"cvxpy"},
    "runs/board.py": {"wandb"},
    "runs/launch.py": {"ray"},
    "runs/mirror.py": {"fsspec"},
    "reports/page.py": {"plotly"},
}
FILES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if not path.name.startswith("__"))


def imported_modules(path):
    for node in ast.walk(ast.parse((SOURCE / path).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports_follow_the_arrow(path):
    room = path.parts[0].removesuffix(".py")
    for module in imported_modules(path):
        top, *rest = module.split(".")
        if top == "cvflows":
            target = rest[0] if rest else "cvflows"
            assert target == room or target in MAY_IMPORT[room], f"{path} may not import {module}"
        allowed = MAY_NEED_AN_EXTRA.get(path.as_posix(), set())
        assert top not in HEAVY - allowed, f"{path} imports {top}"


@pytest.mark.parametrize("path", FILES, ids=str)
def test_files_stay_readable(path):
    assert len((SOURCE / path).read_text().splitlines()) <= 400
