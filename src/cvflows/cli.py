"""The command line. JAX loads only in the commands that compute."""

from __future__ import annotations

import os
import stat
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import tyro

from cvflows import __version__
from cvflows.commands.doctor import doctor
from cvflows.commands.exporting import check, export
from cvflows.commands.listing import draw, methods, settings, tasks
from cvflows.commands.reproducing import reproduce
from cvflows.commands.suites import report, suite, watch
from cvflows.commands.training import evaluate, fit, resume, train
from cvflows.commands.verbosity import split, spoken
from cvflows.errors import ArgumentError, CVFlowsError, DamageWarning, what
from cvflows.plugins import load_plugins

COMMANDS: dict[str, Callable[..., None]] = {
    "tasks": tasks,
    "methods": methods,
    "settings": settings,
    "draw": draw,
    "fit": fit,
    "train": train,
    "resume": resume,
    "evaluate": evaluate,
    "export": export,
    "check": check,
    "suite": suite,
    "watch": watch,
    "report": report,
    "reproduce": reproduce,
    "doctor": doctor,
}
DESCRIPTION = """Agents whose actions stay allowed.

-q, --quiet: no progress bars; -v, --verbose: say what happens (-vv: in detail).

--version: print it; --tyro-print-completion {bash,zsh}: print what completes by Tab."""
REFUSED, INTERNAL, INPUT_OUTPUT, INTERRUPTED, PIPE = 2, 70, 74, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. An error is one line on stderr and an exit code.

    2: an argument or a file was refused; 74: the system refused a file; 70: unexpected; 130: interrupted. The
    environment variable CVFLOWS_DEBUG=1 shows tracebacks instead.
    """
    given, verbosity = split(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["--version"]:
        print(f"cvflows {__version__}")
        return 0
    if (cache := _private_cache()) is not None:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))  # a second run does not compile again
    debug = os.environ.get("CVFLOWS_DEBUG", "") not in ("", "0")
    if not debug:  # on some processors XLA logs every piece of kept code as an error that is none (xla issue 44565)
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with _one_line_warnings(), spoken(verbosity):
            _check(given)
            load_plugins()
            tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="cvflows", description=DESCRIPTION, args=given)
    except (CVFlowsError, OSError, KeyboardInterrupt, Exception) as error:
        if debug:
            raise
        return _report(error)
    return 0


def _report(error: BaseException) -> int:
    """Print in one line what went wrong; returns the exit code."""
    match error:
        case CVFlowsError():
            return _say(what(error), REFUSED)
        case BrokenPipeError():  # the reader of our output is gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PIPE
        case OSError():
            return _say(what(error), INPUT_OUTPUT)
        case KeyboardInterrupt():
            return _say("interrupted", INTERRUPTED)
        case MemoryError():
            return _say(f"out of memory ({what(error)})", INTERNAL)
    return _say(f"unexpected {what(error)} (CVFLOWS_DEBUG=1 shows where)", INTERNAL)


def _say(line: str, code: int) -> int:
    print(f"cvflows: {line}", file=sys.stderr)
    return code


def _check(given: Sequence[str]) -> None:
    """Refuse empty arguments and NUL characters, which no option can mean."""
    for index, text in enumerate(given):
        option = given[index - 1] if index and given[index - 1].startswith("-") else "argument"
        if not text or (text.endswith("=") and text.startswith("--")):
            raise ArgumentError((text or option).strip("-="), "a value", "nothing")
        if "\0" in text:
            raise ArgumentError(option.strip("-"), "text without NUL", repr(text))


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Warnings of damaged files in one line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", DamageWarning)
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, DamageWarning):
                _say(f"warning: {message}", 0)
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def _private_cache() -> Path | None:
    """A folder for compiled code that nobody else can read or write; None where there is none.

    Compiled code is executed, so a folder of another user is not used.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "cvflows"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat(follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            _say(f"warning: {folder} is not a folder of yours: compiled code is not kept", 0)
            return None
        if stat.S_IMODE(found.st_mode) & 0o077:
            folder.chmod(0o700)
        return folder if os.access(folder, os.W_OK | os.X_OK) else None
    except (OSError, RuntimeError):  # no home, or none that can be written to
        return None
