"""examples/robot_in_c: builds with every warning an error, and its loop survives its own faults."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "robot_in_c"


@pytest.mark.skipif(not (shutil.which("cc") and shutil.which("make")), reason="no C compiler, or no make")
@pytest.mark.parametrize(("task", "kind"), [("R+L2", "orb"), ("HC+O", "ray")])
def test_the_robot_runs(task, kind, exported, tmp_path):
    folder, _ = exported(task, "SAC+CVFlow", kind)
    work = shutil.copytree(EXAMPLE, tmp_path / "robot")
    built = subprocess.run(["make", f"CONTROLLER={folder}", "CC=cc"], cwd=work, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(work / "robot"), "500"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    counts = {name: int(number) for name, number in re.findall(r"(\w+) (\d+)[,\n]", done.stdout)}
    assert counts["cycles"] == 500
    faulty = counts["input"] + counts["stale"] + counts["asked"] + counts["unsafe"]
    assert faulty >= 30  # on a busy machine, more deadlines are missed
    assert counts["ok"] + counts["check"] + faulty == 500
