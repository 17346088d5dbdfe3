"""Imports follow the data, as docs/architecture.md says, and never go in circles; nobody asks a shape for its type."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "cvflows"
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
    "onnxruntime",
    "pickle",
    "cloudpickle",
    "dill",
}
MAY_NEED_AN_EXTRA = {
    "constraints/reference.py": {"cvxpy"},
    "controllers/checking.py": {"onnxruntime"},
    "controllers/onnx_graph.py": {"onnx"},
    "runs/board.py": {"wandb"},
    "runs/launch.py": {"ray"},
    "runs/mirror.py": {"fsspec"},
    "reports/page.py": {"plotly"},
}
PUT_OFF = {"cvflows.tasks.base": {"cvflows.tasks.making", "cvflows.tasks.statewise"}}
"""`Task` hands over to these in its methods, so that the catalogue loads without JAX; both need `Task` itself."""
FILES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if not path.name.startswith("__"))


def imports_in_the_documents():
    """Room → rooms it imports, from the table in docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.split("| room | imports |\n|---|---|\n")[1].split("\n\n")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines()]
    return {re.findall(r"`(\w+)`", room)[0]: set(re.findall(r"`(\w+)`", rooms)) for room, rooms in rows}


def imported_modules(path, *, for_types=True):
    """Every module that a file imports, within functions too; without those that only annotations need."""
    tree = ast.parse((SOURCE / path).read_text())
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not for_types:
            skipped |= {id(child) for part in node.body for child in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & set(MODULES) or {node.module}


def name_of(path):
    return ".".join(("cvflows", *path.with_suffix("").parts))


MODULES = {name_of(path): path for path in FILES}


def room_of(module):
    return module.split(".")[1]


def test_imports_follow_the_picture():
    found = {room_of(name): set() for name in MODULES}
    for name, path in MODULES.items():
        targets = {room_of(module) for module in imported_modules(path) if module.startswith("cvflows.")}
        found[room_of(name)] |= targets - {room_of(name)}
    assert found == imports_in_the_documents()


@pytest.mark.parametrize("path", FILES, ids=str)
def test_extras_are_imported_where_they_are_needed(path):
    allowed = MAY_NEED_AN_EXTRA.get(path.as_posix(), set())
    for module in imported_modules(path):
        top = module.split(".")[0]
        assert top not in HEAVY - allowed, f"{path} imports {top}"


def graph(put_off):
    return {
        name: {module for module in imported_modules(path, for_types=False) if module in MODULES}
        - put_off.get(name, set())
        for name, path in MODULES.items()
    }


def test_no_two_modules_import_each_other():
    """Not even from within functions."""
    TopologicalSorter(graph(PUT_OFF)).prepare()
    for name, targets in PUT_OFF.items():
        for target in targets:
            others = {**PUT_OFF, name: targets - {target}}
            with pytest.raises(CycleError):  # or else it need not be on the list
                TopologicalSorter(graph(others)).prepare()


def asked_types(tree):
    """The names that `isinstance` and `match` ask for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            yield from (part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name))
        elif isinstance(node, ast.MatchClass):
            yield ast.unparse(node.cls).split(".")[-1]
        elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node):
            yield from (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


SHAPES = {
    node.name
    for path in (SOURCE / "constraints" / "shapes").glob("*.py")
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.ClassDef) and {ast.unparse(base) for base in node.bases} & {"AbstractShape", "Shape"}
}


def test_the_shapes_are_found():
    assert {"Shape", "Unknown", "Separable", "Affine", "Radial", "Total"} <= SHAPES


@pytest.mark.parametrize("path", FILES, ids=str)
def test_only_a_shape_asks_for_its_own_type(path):
    tree = ast.parse((SOURCE / path).read_text())
    own = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    assert not set(asked_types(tree)) & (SHAPES - own), path


@pytest.mark.parametrize("path", FILES, ids=str)
def test_files_stay_readable(path):
    assert len((SOURCE / path).read_text().splitlines()) <= 400
