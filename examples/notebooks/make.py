"""Runs the examples as notebooks: writes NAME.ipynb with its outputs, and the pictures that the docs show.

    python examples/notebooks/make.py                      # all of them, with their full budgets (make notebooks)
    python examples/notebooks/make.py speed_limit --out .  # one

A notebook is its example cell by cell (jupytext's percent format); budgets come from the environment, as in scripts.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parent.parent
PICTURES = EXAMPLES.parent / "docs" / "images" / "examples"


def notebook_of(name: str) -> nbformat.NotebookNode:
    """The example's cells, numbered, without outputs."""
    notebook = jupytext.read(EXAMPLES / f"{name}.py", fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
        cell["metadata"] = {}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook["metadata"] = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return notebook


def run(name: str, out: Path, pictures: Path) -> Path:
    """Execute one example as a notebook; its file."""
    notebook = notebook_of(name)
    pictures.mkdir(parents=True, exist_ok=True)
    os.environ |= {"PICTURES": str(pictures), "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    client = NotebookClient(notebook, timeout=None, kernel_name="python3", record_timing=False)
    client.execute(cwd=str(EXAMPLES.parent))
    for cell in notebook.cells:
        if "outputs" in cell:  # bars, and what libraries say when they load; tests run examples with warnings as errors
            cell["outputs"] = [output for output in cell.outputs if output.get("name") != "stderr"]
    path = out / f"{name}.ipynb"
    nbformat.validate(notebook)
    nbformat.write(notebook, path)
    return path


def main() -> None:
    known = sorted(path.stem for path in EXAMPLES.glob("*.py"))
    parser = argparse.ArgumentParser(description="Run the examples as notebooks.")
    parser.add_argument("names", nargs="*", help=f"of examples, by default all: {', '.join(known)}")
    parser.add_argument("--out", type=Path, default=EXAMPLES / "notebooks", help="folder of the notebooks")
    parser.add_argument("--pictures", type=Path, default=PICTURES, help="folder of the pictures")
    given = parser.parse_args()
    for name in given.names:
        if name not in known:
            parser.error(f"unknown example {name!r}: choose from {', '.join(known)}")
    for name in given.names or known:
        print(run(name, given.out, given.pictures.resolve()), flush=True)


if __name__ == "__main__":
    main()
