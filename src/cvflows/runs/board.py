"""TensorBoard and Weights & Biases: the figures of a run folder's tables, to watch while it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cvflows.errors import MissingExtraError
from cvflows.runs.config import RunConfig

if TYPE_CHECKING:  # slow to load
    from tensorboardX import SummaryWriter


class Board(Protocol):
    """Something that shows figures."""

    def log(self, group: str, step: int, figures: Mapping[str, float]) -> None:
        """Figures at a step, under `group/name`."""

    def close(self) -> None:
        """Flush and close."""


class TensorBoard:
    """Event files in `folder`, made with the first figure; they replace events after `step`."""

    def __init__(self, folder: Path, step: int = 0) -> None:
        self._folder, self._step = folder, step
        self._writer: SummaryWriter | None = None

    def log(self, group: str, step: int, figures: Mapping[str, float]) -> None:
        if self._writer is None:
            from tensorboardX import SummaryWriter

            self._writer = SummaryWriter(str(self._folder), purge_step=self._step or None, flush_secs=20)
        for name, value in figures.items():
            if math.isfinite(value):  # no episode has ended whole: there is no return
                self._writer.add_scalar(f"{group}/{name}", value, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class WeightsAndBiases:
    """A run of a W&B project; a config with the same fingerprint resumes the same run."""

    def __init__(self, project: str, config: RunConfig, folder: Path) -> None:
        try:
            import wandb
        except ImportError:
            raise MissingExtraError("logging to Weights & Biases", "wandb", "wandb") from None
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{config.task} {config.method} {config.seed}"
        self._run = wandb.init(
            project=project, name=name, id=config.fingerprint, resume="allow", dir=str(folder), config=config.as_json()
        )
        self._run.define_metric("*", step_metric="step")

    def log(self, group: str, step: int, figures: Mapping[str, float]) -> None:
        self._run.log({"step": step, **{f"{group}/{name}": value for name, value in figures.items()}})

    def close(self) -> None:
        self._run.finish()
