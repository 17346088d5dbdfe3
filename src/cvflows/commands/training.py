"""Maps and runs, one at a time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from cvflows.commands.output import print_json
from cvflows.errors import ArgumentError, dimension

MOST_SEED = 2**32 - 1

if TYPE_CHECKING:
    from cvflows.tasks.base import Task


def fit(
    task: tyro.conf.Positional[str],
    map: str = "auto",
    seed: int = 0,
    steps: int = 3000,
    form: Literal["paper", "drift", "stopping"] = "stopping",
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Fit a map from latents to the allowed actions of a task, and save it with a picture.

    Where a task limits states, random episodes are collected and the constraint on actions is learned first.

    Args:
        task: Name of the task, as `cvflows tasks` lists it.
        map: boxspline, coupling or realnvp (learned from the violation); slice, gauge, shell or orb (certified); or
            auto, which takes a certified one where the set allows it.
        seed: Seed of the fit.
        steps: Gradient steps.
        form: Of a learned constraint: the paper's, with drift, or with stopping distance.
        out: Folder for the map, by default maps/TASK.
        json: Print one JSON object instead of a table.
    """
    from cvflows.tasks.catalogue import task as find_task

    found = find_task(task)
    dimension("seed", seed, least=0, most=MOST_SEED)
    dimension("steps", steps, most=10**9)
    from cvflows.maps.fit import FitConfig
    from cvflows.reports.map_figure import draw_map
    from cvflows.runs.fitting import fit_task, save_report
    from cvflows.terminal import fit_progress

    folder, signal = out or Path("maps") / found.name, dict[str, Any]()
    if found.limits is not None:
        found, signal = _learn_limits(found, form, seed)
    config = FitConfig(steps=steps, seed=seed, check_every=max(1, min(250, steps // 4)))
    with fit_progress(f"fitting {found.name}", steps) as progress:
        report = fit_task(found, map, config, progress=progress)
    save_report(report, folder)
    picture = draw_map(report.fitted.map, found, report.fitted.checks, folder / "map.png", seed=seed)
    figures = {**report.as_json(), **signal, "out": str(folder), "picture": str(picture)}
    if json:
        return print_json(figures)
    from cvflows.terminal import print_fit

    print_fit(figures)
    return None


def train(
    task: tyro.conf.Positional[str],
    method: str = "SAC+CVFlow",
    steps: int | None = None,
    seed: int = 0,
    map: Path | None = None,
    kind: str | None = None,
    form: Literal["paper", "drift", "stopping"] = "stopping",
    entropy: Literal["prior", "plain", "exact"] | None = None,
    preset: Literal["tuned", "paper"] = "tuned",
    num_envs: int | None = None,
    checkpoint_every: int = 10_000,
    evaluate_every: int = 5_000,
    evaluation_episodes: int = 5,
    final_episodes: int = 100,
    threads: int | None = None,
    out: Path | None = None,
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    wandb: str | None = None,
    json: bool = False,
) -> None:
    """Train an agent whose actions stay allowed: fits a map if none is given, trains, evaluates, saves.

    Args:
        task: Name of the task, as `cvflows tasks` lists it.
        method: SAC+CVFlow, DDPG+CVFlow, FlowPG, NFW, DPre+, SPre+ or another, as `cvflows methods` lists them.
        steps: Environment steps, by default those of the preset.
        seed: Seed of everything random.
        map: Folder of a fitted map; fitted anew without it.
        kind: Kind of map to fit, by default the method's own.
        form: Of a learned constraint: the paper's, with drift, or with stopping distance.
        entropy: What SAC takes for log π under a map: relative to the map's density, plain, or exact.
        preset: Settings measured to work here, or the paper's.
        num_envs: Environments side by side.
        checkpoint_every: Steps after which, at the end of an episode, everything is saved.
        evaluate_every: Steps between evaluations.
        evaluation_episodes: Episodes of each of them.
        final_episodes: Episodes of the last evaluation.
        threads: Threads for computing; two runs with one each are faster than one with two.
        out: Folder of the run, by default runs/TASK/METHOD/SEED.
        set: Change a setting of the algorithm, as in --set learning_rate=1e-3 (again for another); `cvflows settings
            METHOD` lists them.
        wandb: Project of Weights & Biases to log to (extra `wandb`).
        json: Print one JSON object instead of a table.
    """
    from cvflows.tasks.catalogue import task as find_task

    found = find_task(task)
    _limit_threads(threads)
    from cvflows.runs.agent import PREPARING
    from cvflows.runs.config import make_config, only_random, parse_overrides
    from cvflows.runs.session import begin, check_new
    from cvflows.runs.store import RunFolder
    from cvflows.terminal import fit_progress, print_warning

    config = make_config(
        found,
        method,
        steps=steps,
        preset=preset,
        overrides={**({} if entropy is None else {"entropy": entropy}), **parse_overrides(set)},
        seed=seed,
        map=kind,
        form=form,
        **({} if num_envs is None else {"num_envs": num_envs}),
        checkpoint_every=checkpoint_every,
        evaluate_every=evaluate_every,
        evaluation_episodes=evaluation_episodes,
        final_episodes=final_episodes,
    )
    folder = out or Path("runs") / found.name / config.method / str(seed)
    check_new(RunFolder(folder))
    if (problem := only_random(config, config.steps)) is not None:
        print_warning(problem)
    signal: dict[str, Any] = {}
    if found.limits is not None and map is None:
        found, signal = _learn_limits(found, form, PREPARING)
    with fit_progress(f"preparing {found.name}", 3000) as progress:
        trainer = begin(found, config, folder, map_folder=map, fit_tick=progress, wandb=wandb)
    _complete(trainer, json, signal)


def resume(run: tyro.conf.Positional[Path], wandb: str | None = None, json: bool = False) -> None:
    """Resume a run that was cut off, from its last checkpoint.

    Args:
        run: Folder of the run.
        wandb: Project of Weights & Biases to log to (extra `wandb`).
        json: Print one JSON object instead of a table.
    """
    from cvflows.runs.session import resume as resume_run

    _complete(resume_run(run, wandb=wandb), json)


def evaluate(
    run: tyro.conf.Positional[Path], episodes: int = 100, video: Path | None = None, json: bool = False
) -> None:
    """Play episodes with a trained agent, without exploring.

    Args:
        run: Folder of the run.
        episodes: How many.
        video: File for a film of one episode, .gif.
        json: Print one JSON object instead of a table.
    """
    dimension("episodes", episodes, most=10**6)
    if video is not None and video.suffix.casefold() != ".gif":
        raise ArgumentError("video", "a file name ending in .gif", video)
    from cvflows.runs.session import resume as resume_run
    from cvflows.terminal import count_progress, print_run

    trainer = resume_run(run, look_only=True)
    with count_progress("playing episodes", episodes) as tick:
        figures: dict[str, Any] = {"run": str(run), **trainer.evaluate(episodes, tick=tick)}
    if video is not None:
        from cvflows.reports.film import film_episode

        figures |= film_episode(trainer, video)
    if json:
        return print_json(figures)
    print_run({"task": trainer.config.task, "method": trainer.config.method, "final": figures, **figures})
    return None


def _limit_threads(threads: int | None) -> None:
    """Tell XLA, before it is loaded, how many threads it may use."""
    if threads is not None:
        dimension("threads", threads, most=4096)
        flags = f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()} intra_op_parallelism_threads={threads}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()


def _learn_limits(task: Task, form: str, seed: int) -> tuple[Task, dict[str, Any]]:
    """The task with the constraint on actions that keeps its limits on states, and the figures of learning it."""
    import warnings

    from cvflows.errors import UnsafeLimitsWarning
    from cvflows.terminal import collect_progress, print_warning

    with warnings.catch_warnings(), collect_progress(f"learning the limits of {task.name}") as tick:
        warnings.simplefilter("ignore", UnsafeLimitsWarning)  # said below, in one line
        learned = task.learn(form, seed=seed, tick=tick)
    if learned.self_test is not None and learned.self_test.problem is not None:
        print_warning(learned.self_test.problem)
    return learned.task, {"signal": learned.as_json()}


def _complete(trainer: Any, json: bool, more: dict[str, Any] | None = None) -> None:
    """Finish a run with bars, pictures and a table; `more` figures are shown with it."""
    from cvflows.reports.curves import draw_run
    from cvflows.runs.session import complete
    from cvflows.terminal import count_progress, print_run, train_progress

    config = trainer.config
    with (
        train_progress(f"{config.method} on {config.task}", config.steps) as tick,
        count_progress("final episodes", config.final_episodes) as count,
    ):
        figures = complete(trainer, tick, count)
    figures |= {**(more or {}), "out": str(trainer.folder.path), "picture": str(draw_run(trainer.folder))}
    if json:
        return print_json(figures)
    print_run(figures)
    return None
