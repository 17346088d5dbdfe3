"""Modules of your own that add methods and kinds of maps, for the command line and the processes that a suite starts.

    CVFLOWS_PLUGINS=awr.py,my_package.rules cvflows train R+L2 --method AWR+CVFlow

Names of modules, or paths of files. Installed packages may name theirs as entry points of the group `cvflows.plugins`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path

from cvflows.errors import CVFlowsError, what

VARIABLE, GROUP = "CVFLOWS_PLUGINS", "cvflows.plugins"


class PluginError(CVFlowsError, ImportError):
    """A module that was to be loaded could not be."""


def load_plugins() -> None:
    """Import every plugin that the environment or an installed package names, once."""
    for entry in entry_points(group=GROUP):
        _load(f"the entry point {entry.name!r}", entry.value.partition(":")[0])
    for name in filter(None, (part.strip() for part in os.environ.get(VARIABLE, "").split(","))):
        _load(f"{VARIABLE}={name}", name)


def _load(origin: str, name: str) -> None:
    try:
        if name.endswith(".py"):
            _load_file(Path(name).resolve())
        else:
            importlib.import_module(name)
    except Exception as error:  # whatever somebody's module raises
        raise PluginError(f"{origin} cannot be loaded: {what(error)}") from error


def _load_file(path: Path) -> None:
    """Import a file under the name of its path, so that a second call finds it loaded."""
    name = f"cvflows_plugin:{path}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
