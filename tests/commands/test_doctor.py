"""`cvflows doctor`: sees what is there, and says what is missing and how to install it, whatever is broken."""

import json
import os
import subprocess
import sys

import jax
import pytest

import cvflows
import cvflows.commands.doctor
from cvflows.cli import main
from cvflows.commands.doctor import PURPOSES, examine


@pytest.fixture(scope="module")
def findings():
    return {finding.name: finding for finding in examine()}


def test_sees_what_is_installed(findings):
    assert findings["cvflows"].found.startswith(cvflows.__version__)
    assert f"jax {jax.__version__}" in findings["packages"].found
    assert findings["JAX"].found == f"computes on {jax.devices()[0].platform}: {jax.devices()[0].device_kind}"
    assert not [finding for finding in findings.values() if finding.state == "broken"]


def test_extras_that_are_missing_come_with_a_command(findings):
    for extra in PURPOSES:
        finding = findings[f"extra {extra}"]
        assert (finding.state == "ok") == finding.found.endswith("complete")
        assert finding.state == "ok" or finding.fix == f"pip install 'cvflows[{extra}]'"
    assert findings["extra solver"].state == "ok"  # the tests need it


def test_table_fits_and_json_is_one_object(capsys, monkeypatch):
    monkeypatch.setattr("cvflows.commands.doctor.examine", lambda: iter(EXAMPLES))
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match="1"):
        main(["doctor"])
    table = capsys.readouterr().out
    assert "pip install 'jax>=0.8'" in table
    assert max(map(len, table.splitlines())) <= 80
    with pytest.raises(SystemExit, match="1"):
        main(["doctor", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    assert said["findings"][1] == {"name": "jax", "state": "broken", "found": "0.1", "fix": "pip install 'jax>=0.8'"}


EXAMPLES = [
    cvflows.commands.doctor.Finding("cvflows", "ok", "here"),
    cvflows.commands.doctor.Finding("jax", "broken", "0.1", "pip install 'jax>=0.8'"),
]


def test_a_jax_that_does_not_load_is_a_finding(tmp_path):
    """Neither the error of an import nor a crash stops the others from being looked at."""
    (tmp_path / "jax.py").write_text("raise ImportError('jaxlib is built for another processor')")
    (tmp_path / "mujoco.py").write_text("import os; os.abort()")
    env = os.environ | {"PYTHONPATH": str(tmp_path), "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "nowhere")}
    done = subprocess.run(
        [sys.executable, "-m", "cvflows", "doctor", "--json"], env=env, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr
    found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert found["JAX"]["state"] == "broken"
    assert "another processor" in found["JAX"]["found"]
    assert found["drawing"]["state"] == "optional"
    assert "libegl1" in found["drawing"]["fix"]
    assert "No such file" in found["cache"]["found"]
