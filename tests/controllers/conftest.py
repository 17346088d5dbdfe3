"""Exported controllers, each written once."""

import pytest

from cvflows.controllers.artefact import export_c
from cvflows.controllers.building import Options
from exports import agent_of, make_agent


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """A function that exports an agent, once for every choice of options."""
    done = {}

    def export(task, method, kind="ray", fallback="last", limits=None, **settings):
        key = (task if isinstance(task, str) else id(task), method, kind, fallback, limits, *settings.items())
        if key not in done:
            agent = (agent_of if isinstance(task, str) else make_agent)(task, method, kind, **settings)
            folder = tmp_path_factory.mktemp("artefact") / "controller"
            done[key] = export_c(agent._trainer, folder, Options(fallback, limits)).folder, agent
        return done[key]

    return export
