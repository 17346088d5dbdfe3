"""The only training loop: act, guard, step, store, update, evaluate, save."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial

import numpy as np

from cvflows.agents.base import Metrics
from cvflows.agents.experience import Steps
from cvflows.agents.learner import Learner
from cvflows.agents.problem import Acted
from cvflows.envs.reading import is_vector, observed, rewarded
from cvflows.envs.worlds import Env
from cvflows.errors import StoreError
from cvflows.maps.base import ActionMap
from cvflows.runs.acting import LearningError, TaskGuard, episode_seed, make_problem, play
from cvflows.runs.board import Board, TensorBoard
from cvflows.runs.checkpoint import Counts
from cvflows.runs.config import RunConfig, method_of, with_inputs
from cvflows.runs.folder import TABLES, RunFolder, csv_lines, parse_csv
from cvflows.runs.tally import Episode, summarise
from cvflows.tasks.base import Task

LOOK_EVERY = 1000
"""Steps between readings of the losses, each of which waits for the updates to finish."""
TRAINING, EVALUATION = 0, 1
logger = logging.getLogger(__name__)


class Clock:
    """Time since the last lap: on the wall, and of this process's threads."""

    def __init__(self) -> None:
        self.began = self._now()

    def lap(self) -> dict[str, float]:
        """Seconds since the last one."""
        before, self.began = self.began, self._now()
        return {name: round(self.began[name] - before[name], 3) for name in before}

    @staticmethod
    def _now() -> dict[str, float]:
        return {"seconds": time.perf_counter(), "processor": time.process_time()}


class Trainer:
    """A run in progress: a learner, its environments, its data and its counts.

    What happens depends on the config alone. At a checkpoint every environment begins a new episode, so that a run
    that is resumed there repeats what the first one did. `folder` is locked until `close`; with `look_only` it must
    hold a checkpoint, and is neither locked nor changed.
    """

    def __init__(
        self,
        task: Task,
        config: RunConfig,
        map_: ActionMap | None,
        *,
        folder: RunFolder | None = None,
        make_env: Callable[[], Env] | None = None,
        look_only: bool = False,
        boards: Sequence[Board] = (),
    ) -> None:
        config = with_inputs(config, task.constraint, map_)
        self.task, self.config, self.method = task, config, method_of(config)
        self.folder = None if look_only else folder
        self.make_env = make_env or task.make_env
        """For evaluation; the environments of training may end where the limits were passed."""
        self._make_env = make_env or partial(task.make_env, ending=config.ending)
        self.guard = TaskGuard(task)
        self.learner = Learner(
            self.method,
            config.chosen,
            make_problem(task),
            map_,
            seed=config.seed,
            steps=config.steps,
            environments=config.num_envs,
        )
        self.step = self.started = self.saved = self.looked = 0
        self.episodes: list[Episode] = []
        self.evaluations: list[dict[str, float]] = []
        self.losses: dict[str, float] = {}
        self.tables: dict[str, list[str]] = {name: [] for name in TABLES}
        self.envs: list[Env] = []
        self._newest: Metrics = {}
        self._clock = Clock()
        if folder is not None and look_only:
            folder.check(config)
            self._restore(folder, cut=False)
        elif folder is not None:
            self._open(folder)
        self.boards = list(boards)
        if self.folder is not None:
            self.boards.append(TensorBoard(self.folder.path / "tensorboard", self.step))

    @property
    def random_steps(self) -> int:
        """Steps at the start that take random actions."""
        return self.config.random_steps

    def _open(self, folder: RunFolder) -> None:
        """Lock the folder, check that it holds this run, then remove what was written after its checkpoint."""
        with folder.opening():
            folder.check(self.config)
            if folder.has_checkpoint():
                self._restore(folder, cut=True)
            else:
                folder.clear()

    def run(self, until: int | None = None, tick: Callable[[Trainer], None] | None = None) -> None:
        """Train until that many steps are done, `config.steps` by default."""
        until = self.config.steps if until is None else until
        if not self.envs and self.step < until:
            self.envs = [self._make_env() for _ in range(self.config.num_envs)]
            self._restart()
        self._clock = Clock()
        while self.step < until:
            self._advance()
            if tick is not None:
                tick(self)
        if self.folder is not None and self.step > self.saved:
            self._save()

    def close(self) -> None:
        """Close the environments and the event files, and unlock the folder."""
        for env in self.envs:
            env.close()
        self.envs = []
        for board in self.boards:
            board.close()
        if self.folder is not None:
            self.folder.lock.release()

    def evaluate(self, episodes: int | None = None, *, tick: Callable[[int], None] | None = None) -> dict[str, float]:
        """Figures of episodes without exploring."""
        played = play(
            self.task,
            self.decide,
            self.config.evaluation_episodes if episodes is None else episodes,
            episode_seed(self.config.seed, EVALUATION, self.step),
            make_env=self.make_env,
            tick=tick,
        )
        return {"step": self.step, **summarise(played)}

    def decide(self, observations: np.ndarray) -> Acted:
        """What the agent does at observations (n, o), without exploring."""
        return self.learner.decide(observations)

    def _restart(self) -> None:
        """Begin a new episode in every environment."""
        self.learner.experience.restart()
        self.seen = np.zeros((self.config.num_envs, self.task.observation_dim))  # in the precision they came in
        self.now = [self._begin(index) for index in range(self.config.num_envs)]

    def _begin(self, index: int) -> Episode:
        seed, env = episode_seed(self.config.seed, TRAINING, self.started), self.envs[index]
        self.seen[index] = observed(env, env.reset(seed=seed)[0], self.task.observation_dim)
        self.learner.begin(index, seed)
        self.started += 1
        return Episode(number=self.started - 1)

    def _advance(self) -> None:
        """One step in every environment: act, guard, step, keep, learn what is due."""
        before = self.seen.astype(np.float32)
        acted = self.learner.explore(before)
        chosen = self.guard(self.seen, acted)
        rewards, terminal = np.zeros((2, len(before)), np.float32)
        done = np.zeros(len(before), bool)
        for index, env in enumerate(self.envs):
            observation, reward, terminated, truncated, info = env.step(chosen.executed[index].copy())
            if is_vector(observation, self.seen.shape[1]):
                self.seen[index] = observation  # whether it is finite is asked of all of them at once
            else:
                self.seen[index] = observed(env, observation, self.task.observation_dim)
            rewards[index], terminal[index] = rewarded(env, reward), terminated
            chosen.record(self.now[index], index, float(reward))
            done[index] = terminated or truncated
            if done[index]:
                self.now[index].close(info)
        if not np.isfinite(self.seen).all():
            for env, observation in zip(self.envs, self.seen, strict=True):
                observed(env, observation, self.task.observation_dim)
        after = self.seen.astype(np.float32)
        self.learner.add(Steps(before, acted, chosen.executed, chosen.projected, rewards, after, terminal, done))
        self.step += len(before)
        self._learn()
        self._end(np.flatnonzero(done).tolist())

    def _crossed(self, every: int) -> bool:
        return self.step // every > (self.step - self.config.num_envs) // every

    def _end(self, ended: list[int]) -> None:
        """Close episodes, evaluate, begin new ones; a checkpoint that is due ends the other episodes too."""
        closed = [self.now[index] for index in ended]
        due = self.folder is not None and self.step - self.saved >= self.config.checkpoint_every
        save = due and self.learner.experience.may_pause(at_end=bool(ended))
        if save:
            for index, episode in enumerate(self.now):
                if index not in ended:
                    episode.cut = 1
                    closed.append(episode)
        for episode in closed:
            episode.step = self.step
        self.episodes += closed
        self._write("metrics.csv", [asdict(episode) for episode in closed])
        if closed:
            self._log("training", summarise(closed))
        if self._crossed(self.config.evaluate_every):  # before a checkpoint of the same step, which covers it
            self.evaluations.append(self.evaluate())
            self._write("evaluations.csv", self.evaluations[-1:])
            self._log("evaluation", self.evaluations[-1])
            logger.info("step %d: evaluation %s", self.step, self.evaluations[-1])
        if save:
            self._save()
            self._restart()
        else:
            for index in ended:
                self.now[index] = self._begin(index)

    def _learn(self) -> None:
        metrics = self.learner.learn()
        if metrics is None:
            return
        self._newest = metrics
        if self.step // LOOK_EVERY > self.looked // LOOK_EVERY:
            self._look(metrics)

    def _look(self, losses: Metrics) -> None:
        self.looked = self.step
        self.losses = self._finite(losses)
        self._write("losses.csv", [{"step": self.step, **self.losses}])
        self._log("losses", self.losses)
        logger.debug("step %d: losses %s", self.step, self.losses)

    def _finite(self, losses: Metrics) -> dict[str, float]:
        found = {name: float(value) for name, value in losses.items()}
        wrong = [name for name, value in found.items() if not np.isfinite(value)]
        if wrong:
            raise LearningError(
                f"{', '.join(wrong)} became NaN or infinite at step {self.step}: try a lower learning rate"
            )
        return found

    def _log(self, group: str, figures: dict[str, float]) -> None:
        for board in self.boards:
            board.log(group, self.step, figures)

    def _write(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        began = self.tables[table]
        if began:  # a table keeps the columns it began with, so that runs of earlier code can be resumed
            names = began[0].partition("\n")[0].split(",")
            rows = [{name: row[name] for name in names} for row in rows]
        lines = csv_lines(rows, heading=not began)
        if lines:
            self.tables[table].append(lines)
            if self.folder is not None:
                self.folder.append(table, lines)

    def _save(self) -> None:
        assert self.folder is not None
        self._finite(self._newest)  # a checkpoint with NaN in it is of no use
        self._write("timing.csv", [{"step": self.step, "from": self.saved, **self._clock.lap()}])
        self.folder.save(self.learner.state, self.learner.experience.tables, self._counts())
        self.saved = self.step
        logger.info("step %d: checkpoint in %s", self.step, self.folder.path)

    def save_to(self, folder: RunFolder) -> None:
        """Write everything into any folder, at once."""
        self._finite(self._newest)
        tables = {name: "".join(parts) for name, parts in self.tables.items()}
        folder.save_whole(self.learner.state, self.learner.experience.tables, self._counts(), tables)

    def _counts(self) -> Counts:
        learner = self.learner
        counts = learner.experience.counts()
        return Counts(self.step, self.started, self.looked, counts, dict(learner.rng.bit_generator.state))

    def _restore(self, folder: RunFolder, cut: bool) -> None:
        learner = self.learner
        learner.state = folder.load(learner.state, learner.experience.tables, cut=cut)
        assert folder.current is not None
        counts = folder.current.counts
        self.step, self.started, self.looked = counts.step, counts.started, counts.looked
        self.saved = self.step
        try:
            learner.experience.restore(counts.experience)
            learner.rng.bit_generator.state = counts.rng
            texts = {name: folder.text(name, tail=False) for name in TABLES}
            self.tables = {name: [text] if text else [] for name, text in texts.items()}
            self.episodes = [Episode.parse(row) for row in parse_csv(texts["metrics.csv"])]
            self.evaluations = [
                {name: float(value) for name, value in row.items()} for row in parse_csv(texts["evaluations.csv"])
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(folder.path, f"holds tables or counts of another kind ({error})") from None
