"""Agent: a method on a task, with the habits of the field: learn, predict, save, load."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cvflows.constraints.numbers import real_numbers
from cvflows.errors import ArgumentError, NothingLearnedWarning, dimension
from cvflows.maps.base import ActionMap
from cvflows.runs.config import RunConfig, make_config, only_random
from cvflows.runs.folder import RunFolder
from cvflows.runs.preparation import begin_folder, fitted_map, resolved, restored
from cvflows.runs.tally import Episode
from cvflows.runs.train import Trainer
from cvflows.tasks.base import Task
from cvflows.tasks.catalogue import task as find_task


class Agent:
    """An agent whose actions stay allowed.

        agent = Agent("SAC+CVFlow", task, seed=0)
        agent.learn(100_000)
        action, _ = agent.predict(observation)

    **Arguments:**

    - `method`: a name of `METHODS`.
    - `task`: a `Task` or the name of one.
    - `map_`: a fitted map, by default one of the kind `map`, or the method's own, is fitted now.
    - `form`: of the constraint that is learned where the task limits states; by default the task's own.
    - `ending`: the probability with which a step past the limits ends an episode of training.
    - `preset`: `tuned` or `paper`; further names are settings of the method's algorithm, such as `learning_rate`.
    """

    def __init__(
        self,
        method: str,
        task: Task | str,
        *,
        seed: int = 0,
        map_: ActionMap | None = None,
        map: str | None = None,
        form: str | None = None,
        ending: float | None = None,
        preset: str = "tuned",
        num_envs: int | None = None,
        **overrides: object,
    ) -> None:
        found = find_task(task) if isinstance(task, str) else task
        config = make_config(found, method, None, preset, overrides, seed, num_envs, map, form, ending)
        found = resolved(found, config)
        self._trainer = Trainer(found, config, map_ or fitted_map(found, config))

    @property
    def task(self) -> Task:
        """The task, its constraint known."""
        return self._trainer.task

    @property
    def config(self) -> RunConfig:
        """Every setting."""
        return self._trainer.config

    @property
    def episodes(self) -> list[Episode]:
        """What training counted, episode by episode."""
        return self._trainer.episodes

    def learn(self, steps: int, *, progress: bool = True) -> Agent:
        """Take that many more steps in the environment; a bar shows how it goes.

        The first `learning_starts` steps of an agent are random; a warning says so where a call takes no others.
        """
        until = self._trainer.step + dimension("steps", steps, most=2**31 - 1)
        if (problem := only_random(self.config, until)) is not None:
            warnings.warn(problem, NothingLearnedWarning, stacklevel=2)
        if not progress:
            self._trainer.run(until)
            return self
        from cvflows.terminal import train_progress

        with train_progress(f"{self.config.method} on {self.config.task}", until) as tick:
            self._trainer.run(until, tick)
        return self

    def predict(self, observation: object, deterministic: bool = True) -> tuple[np.ndarray, None]:
        """An allowed action for one observation (o,), or one for each of a batch (n, o)."""
        given = real_numbers("observation", observation)
        size = self.task.observation_dim
        if given.ndim not in (1, 2) or given.shape[-1] != size:
            raise ArgumentError("observation", f"shape ({size},) or (n, {size})", given.shape)
        if given.ndim == 1 and deterministic:
            action = self._trainer.learner.decide_alone(given.astype(np.float32))
            return self._trainer.guard.alone(given, action), None
        batch = given if given.ndim == 2 else given[None]
        if not len(batch):
            return np.zeros((0, self.task.action_dim), np.float32), None
        acted = self._trainer.learner.decide(batch.astype(np.float32), stochastic=not deterministic)
        action = self._trainer.guard(batch, acted).executed
        return (action if given.ndim == 2 else action[0]), None

    def evaluate(self, episodes: int = 100) -> dict[str, float]:
        """Mean return, violations before projection, and more, over episodes without exploring."""
        return self._trainer.evaluate(dimension("episodes", episodes, most=10**6))

    def save(self, folder: str | Path) -> Path:
        """Write everything: config, map, networks, transitions, tables and counts.

        Over an earlier save of the same agent, the folder holds the old one whole until it holds the new one. A folder
        with another run in it is refused.
        """
        trainer, run = self._trainer, RunFolder(folder)
        with run.opening():
            begin_folder(run, trainer)
            trainer.save_to(run)
        run.lock.release()
        return run.path

    def export(
        self,
        folder: str | Path,
        *,
        fallback: str | Sequence[float] = "last",
        limits: tuple[Sequence[float], Sequence[float]] | None = None,
        onnx: bool = False,
    ) -> Path:
        """Write a controller in C that needs neither Python nor JAX, and that no forbidden action leaves.

        `fallback`: `last`, `anchor` or an action; `limits`: least and greatest values of the observation's entries;
        `onnx`: one ONNX file beside it (extra `export`). See docs/deploy.md.
        """
        from cvflows.controllers.artefact import export_c
        from cvflows.controllers.building import Options

        return export_c(self._trainer, folder, Options(fallback, limits), onnx=onnx).folder

    @classmethod
    def load(cls, folder: str | Path, task: Task | None = None) -> Agent:
        """The agent that was saved; `task` is needed where it was one of your own."""
        run = RunFolder(folder)
        config = run.config()
        found, map_ = restored(config, run, task)
        agent = cls.__new__(cls)
        agent._trainer = Trainer(found, config, map_, folder=run, look_only=True)
        return agent
