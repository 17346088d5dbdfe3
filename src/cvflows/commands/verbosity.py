"""How much a command says: -q and -v, in front of the command or behind it.

| option | on stderr |
|---|---|
| | progress bars, notes, warnings |
| `-q`, `--quiet` | warnings |
| `-v`, `--verbose` | also what the library does: its logger at INFO |
| `-vv` | and details: at DEBUG |

Bars and notes belong to the logger `cvflows.progress`; everything else is logged by `cvflows` and the loggers below it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cvflows.terminal import PROGRESS

LOGGER = "cvflows"
WORDS = {"-q": -1, "--quiet": -1, "-v": 1, "--verbose": 1, "-vv": 2}


def split(given: Sequence[str]) -> tuple[list[str], int]:
    """The arguments without these options, and how verbose to be: -1, 0, 1 or 2."""
    own = [WORDS[word] for word in given if word in WORDS]
    return [word for word in given if word not in WORDS], max(-1, min(2, sum(own)))


@contextmanager
def spoken(verbosity: int) -> Iterator[None]:
    """Set the package's loggers for one command, and set them back."""
    logger, progress, handler = logging.getLogger(LOGGER), logging.getLogger(PROGRESS), _Lines()
    before = logger.level, progress.level
    if verbosity < 0:
        progress.setLevel(logging.ERROR)
    if verbosity > 0:
        logger.setLevel(logging.INFO if verbosity == 1 else logging.DEBUG)
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        progress.setLevel(before[1])


class _Lines(logging.Handler):
    """A line per record on what is stderr now: progress bars replace it while they are shown."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)
