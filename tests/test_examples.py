"""Examples run from the first line to the last with a small budget, stay short, and make their pictures."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import jax
import matplotlib.image
import matplotlib.pyplot as plt
import pytest

FOLDER = Path(__file__).parent.parent / "examples"
SMALL = {
    "bandwidth": {"STEPS": "256"},
    "export_to_c": {"STEPS": "256"},
    "hopper_power": {"STEPS": "256"},
    "own_constraint": {"STEPS": "256"},
    "ppo_single_file": {"STEPS": "4096"},
    "sb3_latent": {"STEPS": "1024"},
    "speed_limit": {"EPISODES": "40"},
}
"""What each example is told, so that it ends in seconds."""
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.py"))


def marked(name):
    return pytest.param(name, marks=pytest.mark.extras if name == "sb3_latent" else pytest.mark.thorough)


def test_every_example_has_a_small_budget():
    assert set(SMALL) == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_short_and_say_what_they_show(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert len(text.splitlines()) < 80
    assert text.startswith("# %% [markdown]\n# # ")
    assert f"python examples/{name}.py" in text
    for key in re.findall(r'os\.environ\.get\("(\w+)"', text):
        assert key in {"PICTURES", "WORK", *SMALL[name]}, f"{key} has no small value"


@pytest.mark.filterwarnings("ignore::cvflows.errors.NothingLearnedWarning")
@pytest.mark.parametrize("name", [marked(name) for name in EXAMPLES])
def test_examples_run_and_draw(name, tmp_path, monkeypatch, capsys):
    if name == "sb3_latent":
        pytest.importorskip("stable_baselines3", reason="pip install 'cvflows[sb3]'")
    for key, value in {**SMALL[name], "PICTURES": str(tmp_path), "WORK": str(tmp_path)}.items():
        monkeypatch.setenv(key, value)
    with jax.numpy_rank_promotion("allow"):  # users' code may broadcast as it likes
        runpy.run_path(str(FOLDER / f"{name}.py"))
    plt.close("all")
    pixels = matplotlib.image.imread(tmp_path / f"{name}.png")
    assert pixels.std() > 0.05
    assert len(capsys.readouterr().out.splitlines()) >= 1


NOTEBOOKS = FOLDER / "notebooks"


def code(cells):
    return ["".join(cell["source"]).rstrip() for cell in cells]


@pytest.mark.parametrize("name", EXAMPLES)
def test_notebooks_are_the_examples_with_outputs(name):
    """Cell by cell what the file says, run in order, with something to look at, and no noise."""
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())
    text = (FOLDER / f"{name}.py").read_text()
    ran = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for source in code(ran):
        assert source in text
    assert [cell["execution_count"] for cell in ran] == list(range(1, len(ran) + 1))
    outputs = [output for cell in ran for output in cell["outputs"]]
    assert not [output for output in outputs if output.get("name") == "stderr" or output["output_type"] == "error"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert (NOTEBOOKS / f"{name}.ipynb").stat().st_size < 500_000
    assert (FOLDER.parent / "docs" / "images" / "examples" / f"{name}.png").exists()


@pytest.mark.extras
@pytest.mark.parametrize("name", ["speed_limit", "export_to_c"])
def test_notebooks_execute(name, tmp_path):
    pytest.importorskip("jupytext", reason="pip install 'cvflows[notebooks]'")
    pytest.importorskip("nbclient", reason="pip install 'cvflows[notebooks]'")
    env = os.environ | SMALL[name] | {"WORK": str(tmp_path)}
    command = [sys.executable, str(NOTEBOOKS / "make.py"), name, "--out", str(tmp_path), "--pictures", str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / f"{name}.ipynb").read_text())["cells"]
    committed = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())["cells"]
    assert code(cells) == code(committed), "make notebooks"
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell.get("outputs", ()))
    assert (tmp_path / f"{name}.png").stat().st_size > 5000
