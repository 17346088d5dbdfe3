"""MuJoCo's own messages never get onto the standard output, nor into a file of the working directory."""

import json
import subprocess
import sys

import pytest

from cvflows.envs.messages import pass_on


def test_the_output_of_a_command_is_its_json_alone(tmp_path):
    script = (
        "import cvflows as cv, json; env = cv.task('HC+O').make_env(); env.reset(seed=0); print(json.dumps('made'))"
    )
    found = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == "made"
    assert list(tmp_path.iterdir()) == []


def test_what_matters_is_a_warning():
    with pytest.warns(RuntimeWarning, match="huge value in QACC"):
        pass_on("Nan, Inf or huge value in QACC at DOF 0. The simulation is unstable.")


def test_what_a_models_author_must_change_is_logged(caplog):
    with caplog.at_level("INFO", logger="cvflows"):
        pass_on("compiler attribute 'settotalmass' is deprecated")
    assert "settotalmass" in caplog.text
