"""The command line. JAX loads only in the commands that compute."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tyro

from cvflows.commands.catalogue import draw, methods, tasks
from cvflows.commands.suites import report, suite, watch
from cvflows.commands.training import evaluate, fit, resume, train
from cvflows.errors import CVFlowsError

COMMANDS: dict[str, Callable[..., Any]] = {
    "tasks": tasks,
    "methods": methods,
    "draw": draw,
    "fit": fit,
    "train": train,
    "resume": resume,
    "evaluate": evaluate,
    "suite": suite,
    "watch": watch,
    "report": report,
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; a known error is one line on stderr and exit code 2."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cvflows"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))  # a second run does not compile again
    try:
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="cvflows", description="Agents whose actions stay allowed.", args=arguments
        )
    except CVFlowsError as error:
        print(f"cvflows: {error}", file=sys.stderr)
        return 2
    return 0
