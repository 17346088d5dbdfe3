"""Fit a map, train an agent, resume a run, evaluate one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from tyro.conf import OmitArgPrefixes, Positional, UseAppendAction, arg

from cvflows.commands.output import print_json
from cvflows.errors import ArgumentError, dimension
from cvflows.figures import FitFigures, RunFigures, SignalFigures
from cvflows.threads import variables

MOST_SEED = 2**32 - 1
Form = Literal["paper", "drift", "stopping", "cbf", "backup"]
Task = Annotated[str, Positional, arg(metavar="TASK")]
Run = Annotated[Path, Positional, arg(metavar="RUN")]

if TYPE_CHECKING:
    from cvflows.runs.config import RunConfig
    from cvflows.runs.train import Trainer
    from cvflows.tasks.base import Task as FoundTask


def fit(
    task: Task,
    kind: str = "auto",
    seed: int = 0,
    steps: int = 3000,
    transport: float = 0.0,
    form: Form | None = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Fit a map from latents to the allowed actions of a task, and save it with a picture.

    Where a task limits states, random episodes are collected and the constraint on actions is learned first.

    Args:
        task: Name of the task, as `cvflows tasks` lists it.
        kind: Kind of map: boxspline, coupling or realnvp (learned from the violation); slice, gauge, shell, orb or
            ray (certified); or auto, which chooses a certified one where the set allows it.
        seed: Seed of the fit.
        steps: Gradient steps.
        transport: Weight of a term that keeps a latent's action the same in every context, as far as the set allows;
            for kinds that are fitted.
        form: Form of a learned constraint, as docs/statewise.md describes them; by default the task's own.
        out: Folder for the map, by default maps/TASK.
        json: Print one JSON object instead of a table.
    """
    from cvflows.tasks.catalogue import task as find_task

    found = find_task(task)
    dimension("seed", seed, least=0, most=MOST_SEED)
    dimension("steps", steps, most=10**9)
    from cvflows.maps.fit import FitConfig
    from cvflows.printing import print_fit
    from cvflows.reports.map_figure import draw_map
    from cvflows.runs.fitting import fit_map, save_report
    from cvflows.terminal import fit_progress

    config = FitConfig(steps=steps, transport=transport, seed=seed, check_every=max(1, min(250, steps // 4)))
    folder, signal = out or Path("maps") / found.name, None
    if found.limits is not None:
        found, signal = _learn_limits(found, form or found.form, seed)
    with fit_progress(f"fitting {found.name}", steps) as progress:
        report = fit_map(found, kind, config, progress=progress)
    save_report(report, folder)
    picture = draw_map(report.map, found, report.fitted.checks, folder / "map.png", seed=seed)
    learned = {} if signal is None else {"signal": signal}
    figures = cast(FitFigures, {**report.as_json(), **learned, "out": str(folder), "picture": str(picture)})
    if json:
        return print_json(figures)
    print_fit(figures)
    return None


@dataclass(frozen=True)
class RunOptions:
    """The options of `train` that say what a run is.

    Args:
        task: Name of the task, as `cvflows tasks` lists it.
        method: SAC+CVFlow, DDPG+CVFlow, FlowPG, NFW, DPre+, SPre+ or another, as `cvflows methods` lists them.
        steps: Environment steps, by default those of the preset.
        seed: Seed of everything random.
        kind: Kind of map to fit, by default the method's own.
        form: Form of a learned constraint, as docs/statewise.md describes them; by default the task's own.
        ending: Probability with which a step past the task's limits ends an episode of training, by default the task's
            own.
        entropy: What SAC uses for log π under a map: relative to the map's density, plain, or exact.
        preset: Settings measured to work here, or the paper's.
        num_envs: Environments that are stepped together; by default what suits the algorithm, as in the next two.
        checkpoint_every: Steps between checkpoints, which are written at the end of an episode.
        evaluate_every: Steps between evaluations.
        evaluation_episodes: Episodes per evaluation.
        final_episodes: Episodes of the last evaluation.
        set: Change a setting of the algorithm, as in --set learning_rate=1e-3 (again for another); `cvflows settings
            METHOD` lists them.
    """

    task: Task
    method: str = "SAC+CVFlow"
    steps: int | None = None
    seed: int = 0
    kind: str | None = None
    form: Form | None = None
    ending: float | None = None
    entropy: Literal["prior", "plain", "exact"] | None = None
    preset: Literal["tuned", "paper"] = "tuned"
    num_envs: int | None = None
    checkpoint_every: int | None = None
    evaluate_every: int | None = None
    evaluation_episodes: int = 5
    final_episodes: int = 100
    set: UseAppendAction[tuple[str, ...]] = ()

    def config(self) -> RunConfig:
        """The config of the run."""
        from cvflows.runs.config import make_config, parse_overrides
        from cvflows.tasks.catalogue import task as find_task

        entropy = {} if self.entropy is None else {"entropy": self.entropy}
        return make_config(
            find_task(self.task),
            self.method,
            steps=self.steps,
            preset=self.preset,
            overrides={**entropy, **parse_overrides(self.set)},
            seed=self.seed,
            map=self.kind,
            form=self.form,
            ending=self.ending,
            num_envs=self.num_envs,
            checkpoint_every=self.checkpoint_every,
            evaluate_every=self.evaluate_every,
            evaluation_episodes=self.evaluation_episodes,
            final_episodes=self.final_episodes,
        )


def train(
    run: OmitArgPrefixes[RunOptions],
    map_folder: Path | None = None,
    threads: int = 1,
    out: Path | None = None,
    wandb: str | None = None,
    json: bool = False,
) -> None:
    """Train an agent whose actions stay allowed: fits a map if none is given, trains, evaluates, saves.

    Args:
        run: What the run is.
        map_folder: Folder of a fitted map, as `cvflows fit` writes it; without it, a map is fitted first.
        threads: Threads for computing; for networks of this size, one is fastest.
        out: Folder of the run, by default runs/TASK/METHOD/SEED.
        wandb: Project of Weights & Biases to log to (extra `wandb`).
        json: Print one JSON object instead of a table.
    """
    from cvflows.tasks.catalogue import task as find_task

    found = find_task(run.task)
    _limit_threads(threads)
    from cvflows.runs.config import only_random
    from cvflows.runs.folder import RunFolder
    from cvflows.runs.preparation import PREPARING
    from cvflows.runs.session import begin, check_new
    from cvflows.terminal import fit_progress, print_warning

    config = run.config()
    folder = out or Path("runs") / found.name / config.method / str(config.seed)
    check_new(RunFolder(folder))
    if (problem := only_random(config, config.steps)) is not None:
        print_warning(problem)
    signal = None
    if found.limits is not None and map_folder is None:
        found, signal = _learn_limits(found, config.form, PREPARING)
    with fit_progress(f"preparing {found.name}", 3000) as progress:
        trainer = begin(found, config, folder, map_folder=map_folder, fit_tick=progress, wandb=wandb)
    _complete(trainer, json, signal)


def resume(run: Run, wandb: str | None = None, json: bool = False) -> None:
    """Resume an interrupted run from its last checkpoint.

    Args:
        run: Folder of the run.
        wandb: Project of Weights & Biases to log to (extra `wandb`).
        json: Print one JSON object instead of a table.
    """
    from cvflows.runs.session import resume as resume_run

    _complete(resume_run(run, wandb=wandb), json)


def evaluate(
    run: Run, episodes: int = 100, video: Path | None = None, picture: Path | None = None, json: bool = False
) -> None:
    """Play episodes with a trained agent, without exploring.

    Args:
        run: Folder of the run.
        episodes: Number of episodes.
        video: File for a film of one episode, .gif.
        picture: File for a picture of one episode, .png: how much of its limit every action uses.
        json: Print one JSON object instead of a table.
    """
    dimension("episodes", episodes, most=10**6)
    for name, path, ending in (("video", video, ".gif"), ("picture", picture, ".png")):
        if path is not None and path.suffix.casefold() != ending:
            raise ArgumentError(name, f"a file name ending in {ending}", path)
    from cvflows.printing import print_run
    from cvflows.runs.session import resume as resume_run
    from cvflows.terminal import count_progress

    trainer = resume_run(run, look_only=True)
    with count_progress("playing episodes", episodes) as tick:
        evaluation = trainer.evaluate(episodes, tick=tick)
    film = None
    if video is not None:
        from cvflows.reports.film import film_episode

        film = film_episode(trainer, video)
    drawn = {}
    if picture is not None:
        from cvflows.reports.limits import draw_limits

        drawn["picture"] = str(draw_limits(trainer, picture))
    if json:
        return print_json({"run": str(run), **evaluation, **({} if film is None else film.as_json()), **drawn})
    figures = _beside_paper({"task": trainer.config.task, "method": trainer.config.method, "final": evaluation})
    if "picture" in drawn:
        figures["picture"] = drawn["picture"]
    if film is not None and film.video is not None:
        figures["video"] = film.video
    if film is not None and film.missing is not None:
        figures["missing"] = film.missing
    print_run(figures)
    return None


def _limit_threads(threads: int) -> None:
    """Say, before XLA is loaded, how many threads it may use."""
    os.environ.update(variables(dimension("threads", threads, most=4096)))


def _learn_limits(task: FoundTask, form: str, seed: int) -> tuple[FoundTask, SignalFigures]:
    """The task with the constraint on actions that keeps its limits on states, and the figures of learning it."""
    import warnings

    from cvflows.errors import UnsafeLimitsWarning
    from cvflows.terminal import collect_progress, print_warning

    with warnings.catch_warnings(), collect_progress(f"learning the limits of {task.name}") as tick:
        warnings.simplefilter("ignore", UnsafeLimitsWarning)  # printed below, in one line
        learned = task.learn(form, seed=seed, tick=tick)
    if learned.self_test is not None and learned.self_test.problem is not None:
        print_warning(learned.self_test.problem)
    return learned.task, learned.as_json()


def _complete(trainer: Trainer, json: bool, signal: SignalFigures | None = None) -> None:
    """Finish a run with bars, pictures and a table, which also shows the figures of a constraint learned for it."""
    from cvflows.printing import print_run
    from cvflows.reports.curves import draw_run
    from cvflows.runs.session import complete
    from cvflows.terminal import count_progress, train_progress

    config, folder = trainer.config, trainer.folder
    assert folder is not None
    with (
        train_progress(f"{config.method} on {config.task}", config.steps) as tick,
        count_progress("final episodes", config.final_episodes) as count,
    ):
        figures = complete(trainer, tick, count)
    if signal is not None:
        figures["signal"] = signal
    figures["out"], figures["picture"] = str(folder.path), str(draw_run(folder))
    figures = _beside_paper(figures)
    if json:
        return print_json(figures)
    print_run(figures)
    return None


def _beside_paper(figures: RunFigures) -> RunFigures:
    """The figures with the paper's best on the task, where it has one."""
    from cvflows.reports.paper import best_reported

    best = best_reported(figures["task"])
    return figures if best is None else {**figures, "paper": best}
