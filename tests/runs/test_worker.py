"""Processes of a suite."""

import subprocess
import sys

import pytest

from cvflows.runs.worker import GROUP

SHOWS = "import cvflows.runs.worker as w; w.stay_nice(); print(w.GROUP.read_text())"


@pytest.mark.skipif(not GROUP.exists(), reason="this system does not group processes by session")
def test_a_nice_suite_has_nice_processes():
    """In a session of its own, as the launcher starts them."""
    for nice in ("0", "19"):
        command = ["nice", "-n", nice, sys.executable, "-c", SHOWS]
        shown = subprocess.run(command, capture_output=True, text=True, start_new_session=True, check=True).stdout
        assert shown.split()[-1] == nice
