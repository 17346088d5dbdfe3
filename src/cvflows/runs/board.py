"""TensorBoard: the same figures as the tables of a run folder, for looking at while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Board:
    """Event files in `folder`, made when the first figure comes; those after `step` are superseded."""

    def __init__(self, folder: Path, step: int = 0) -> None:
        self._folder, self._step = folder, step
        self._writer: Any = None

    def log(self, group: str, step: int, figures: Mapping[str, float]) -> None:
        """Figures at a step, under `group/name`."""
        if self._writer is None:
            from tensorboardX import SummaryWriter

            self._writer = SummaryWriter(str(self._folder), purge_step=self._step or None, flush_secs=20)
        for name, value in figures.items():
            self._writer.add_scalar(f"{group}/{name}", value, step)

    def close(self) -> None:
        """Flush and close."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
