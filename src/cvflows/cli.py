"""The command line: arguments to calls, nothing else. JAX loads only in the commands that compute."""

from __future__ import annotations

import json as json_module
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from cvflows.errors import ArgumentError, CVFlowsError


def tasks(json: bool = False) -> None:
    """List the benchmark tasks.

    Args:
        json: Print one JSON object instead of a table.
    """
    from cvflows.tasks.catalogue import TASKS
    from cvflows.tasks.registration import gymnasium_id

    rows = [
        {
            "task": task.name,
            "environment": task.environment,
            "gymnasium_id": gymnasium_id(task.name),
            "constraint": task.words,
            "formula": task.formula,
            "on": "actions" if task.limits is None else "states",
            "action_dim": task.action_dim,
            "convex": task.convex,
            "star_shaped": task.star_shaped,
            "contexts": "states of a random policy" if task.distribution is None else str(task.distribution),
            "feasible_share": task.share,
            "violations": task.metric,
            "in_paper": task.in_paper,
        }
        for task in TASKS.values()
    ]
    if json:
        return _print_json({"tasks": rows})
    from cvflows.terminal import print_tasks

    print_tasks(rows)
    return None


def methods(json: bool = False) -> None:
    """List the methods.

    Args:
        json: Print one JSON object instead of a table.
    """
    from dataclasses import asdict

    from cvflows.agents.methods import METHODS

    rows = [asdict(method) for method in METHODS.values()]
    if json:
        return _print_json({"methods": rows})
    from cvflows.terminal import print_methods

    print_methods(rows)
    return None


def draw(task: tyro.conf.Positional[str], out: Path = Path("pictures"), seed: int = 0, json: bool = False) -> None:
    """Draw the allowed actions of a task and where forbidden ones are projected.

    Args:
        task: Name of the task, as `cvflows tasks` lists it.
        out: Folder for the picture.
        seed: Seed of the contexts and actions drawn.
        json: Print one JSON object instead of a line.
    """
    from cvflows.tasks.catalogue import task as find_task

    found = find_task(task)
    from cvflows.reports.figures import draw_task

    drawn = draw_task(found, out / f"{found.name}.png", seed=seed)
    if json:
        return _print_json(drawn)
    print(f"{drawn['picture']}: {drawn['panels']} panel(s) of {found.name}, {drawn['projected']} actions projected")
    if "missing" in drawn:
        print(f"cvflows: {drawn['missing']}", file=sys.stderr)
    return None


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
    from cvflows.maps.fit import FitConfig
    from cvflows.reports.map_figure import draw_map
    from cvflows.runs.fitting import fit_task, save_report
    from cvflows.terminal import collect_progress, fit_progress

    folder, signal = out or Path("maps") / found.name, {}
    if found.limits is not None:
        with collect_progress(f"collecting transitions of {found.name}") as tick:
            learned = found.learn(form, seed=seed, tick=tick)
        found, signal = learned.task, {"signal": learned.as_json()}
    config = FitConfig(steps=steps, seed=seed, check_every=max(1, min(250, steps // 4)))
    with fit_progress(f"fitting {found.name}", steps) as progress:
        report = fit_task(found, map, config, progress=progress)
    save_report(report, folder)
    picture = draw_map(report.fitted.map, found, report.fitted.checks, folder / "map.png", seed=seed)
    figures = {**report.as_json(), **signal, "out": str(folder), "picture": str(picture)}
    if json:
        return _print_json(figures)
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
    num_envs: int = 1,
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
        preset: Hyper-parameters measured to work here, or the paper's.
        num_envs: Environments side by side.
        checkpoint_every: Steps after which, at the end of an episode, everything is saved.
        evaluate_every: Steps between evaluations.
        evaluation_episodes: Episodes of each of them.
        final_episodes: Episodes of the last evaluation.
        threads: Threads for computing; two runs with one each are faster than one with two.
        out: Folder of the run, by default runs/TASK/METHOD/SEED.
        set: Override a hyper-parameter, as in --set learning_rate=1e-3 (again for another).
        wandb: Project of Weights & Biases to log to (extra `wandb`).
        json: Print one JSON object instead of a table.
    """
    from cvflows.tasks.catalogue import task as find_task

    found = find_task(task)
    _limit_threads(threads)
    from cvflows.runs.config import make_config, parse_overrides
    from cvflows.runs.session import begin
    from cvflows.terminal import fit_progress

    config = make_config(
        found,
        method,
        steps=steps,
        preset=preset,
        overrides=parse_overrides(set),
        seed=seed,
        num_envs=num_envs,
        map=kind,
        form=form,
        entropy=entropy,
        checkpoint_every=checkpoint_every,
        evaluate_every=evaluate_every,
        evaluation_episodes=evaluation_episodes,
        final_episodes=final_episodes,
    )
    folder = out or Path("runs") / found.name / config.method / str(seed)
    with fit_progress(f"preparing {found.name}", 3000) as progress:
        trainer = begin(found, config, folder, map_folder=map, fit_tick=progress, wandb=wandb)
    _complete(trainer, json)


def resume(run: tyro.conf.Positional[Path], wandb: str | None = None, json: bool = False) -> None:
    """Go on with a run that was cut off, from its last checkpoint.

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
    from cvflows.runs.session import resume as resume_run
    from cvflows.terminal import count_progress, print_run

    trainer = resume_run(run, look_only=True)
    with count_progress("playing episodes", episodes) as tick:
        figures: dict[str, Any] = {"run": str(run), **trainer.evaluate(episodes, tick=tick)}
    if video is not None:
        from cvflows.reports.film import film_episode

        figures |= film_episode(trainer, video)
    if json:
        return _print_json(figures)
    print_run({"task": trainer.config.task, "method": trainer.config.method, "final": figures, **figures})
    return None


def suite(
    grid: tyro.conf.Positional[Path | None] = None,
    tasks: tuple[str, ...] | None = None,
    methods: tuple[str, ...] | None = None,
    seeds: int | None = None,
    steps: int | None = None,
    launcher: Literal["local", "ray"] = "local",
    workers: int | None = None,
    address: str | None = None,
    retries: int = 3,
    out: Path = Path("runs"),
    json: bool = False,
) -> None:
    """Train every task × method × seed of a grid; run the same command again to go on with what was cut off.

    Args:
        grid: TOML file with tasks, methods, seeds, steps and more; what follows replaces what it says.
        tasks: Names of tasks.
        methods: Names of methods.
        seeds: How many seeds.
        steps: Environment steps of every run, by default those of the preset.
        launcher: Processes of this machine, or a Ray cluster (extra `ray`).
        workers: Processes side by side on this machine, by default one per core.
        address: Of a Ray cluster; `auto` finds the one this machine belongs to, without it a local one is started.
        retries: How often Ray starts a run again whose node was lost.
        out: Folder of the runs, TASK/METHOD/SEED below it; for a cluster, one that all nodes share.
        json: Print one JSON object instead of a table.
    """
    from cvflows.runs.grid import Grid
    from cvflows.runs.launch import Local, Ray
    from cvflows.runs.suite import Suite
    from cvflows.terminal import live_runs, print_runs

    settings = {} if grid is None else Grid.read(grid)
    given = {"tasks": tasks, "methods": methods, "seeds": seeds, "steps": steps}
    settings |= {name: value for name, value in given.items() if value is not None}
    for name in ("tasks", "methods"):
        if not settings.get(name):
            raise ArgumentError(name, "at least one name, here or in a grid's file", "none")
    whole = Suite(Grid(**settings), out)
    with live_runs() as draw:
        how: Any = Local(workers) if launcher == "local" else Ray(address, retries=retries)
        try:
            figures = whole.run(how, lambda suite: draw(suite.statuses.values(), suite.preparing))
        except KeyboardInterrupt:
            figures = whole.summary() | {"interrupted": True}
    if json:
        _print_json(figures)
    else:
        print_runs(whole.statuses.values())
        for name, problem in figures["failures"].items():
            print(f"cvflows: {name}: {problem}", file=sys.stderr)
        if "interrupted" in figures:
            print("cvflows: interrupted; the same command goes on from the last checkpoints", file=sys.stderr)
    if figures["failures"] or "interrupted" in figures:
        raise SystemExit(130 if "interrupted" in figures else 1)


def watch(
    runs: tyro.conf.Positional[tuple[Path, ...]], every: float = 2.0, once: bool = False, json: bool = False
) -> None:
    """Watch runs, wherever they are being trained, until all are complete.

    Args:
        runs: Folders of runs, or folders above them.
        every: Seconds between looks.
        once: Look once.
        json: Print one JSON object and leave.
    """
    import time

    from cvflows.runs.progress import dump, find_runs, read_status
    from cvflows.terminal import live_runs, print_runs

    def look() -> list[Any]:
        found = find_runs(runs)
        if not found:
            raise ArgumentError("runs", "folders with runs in them", " ".join(map(str, runs)))
        return [read_status(folder) for folder in found]

    statuses = look()
    if json:
        return print(dump(statuses))
    if not once:
        with live_runs() as draw:
            while any(status.state in ("running", "cut off") for status in statuses):
                draw(statuses)
                time.sleep(every)
                statuses = look()
    print_runs(statuses)
    return None


def report(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html"),
    title: str = "Training report",
    maps: bool = True,
    json: bool = False,
) -> None:
    """Make one self-contained page from runs, and its figures as PNG and PDF beside it.

    Args:
        runs: Folders of runs, or folders above them.
        out: The page.
        title: Its heading.
        maps: Draw the map of every task, which takes some seconds each.
        json: Print one JSON object with every figure instead of a line.
    """
    from cvflows.reports.gallery import map_pictures
    from cvflows.reports.page import write_page
    from cvflows.reports.plots import write_plots
    from cvflows.reports.records import load_runs
    from cvflows.reports.tables import Tables
    from cvflows.runs.progress import find_runs
    from cvflows.terminal import count_progress, print_lines

    with count_progress("reading runs", len(find_runs(runs))) as tick:
        tables = Tables(load_runs(runs, tick))
    figures = out.with_name(f"{out.stem}_figures")
    pictures: list[Any] = []
    if maps:
        with count_progress("drawing maps", len(tables.tasks)) as tick:
            pictures, notes = map_pictures(tables, figures, tick)
        tables.notes += notes
    page, plots = write_page(tables, out, title=title, maps=pictures), write_plots(tables, figures)
    if json:
        names = ("return", "training", "final", "magnitude", "speed")
        return _print_json(
            {
                "page": str(page),
                "figures": [str(path) for path in plots],
                "tables": {name: tables.cells(name) for name in names},
                "aggregates": tables.aggregates(),
                "runs": tables.runs(),
                "notes": tables.notes,
            }
        )
    print_lines([f"{page} ({page.stat().st_size / 1e6:.1f} MB), figures in {figures}"], tables.notes)
    return None


def _limit_threads(threads: int | None) -> None:
    """Tell XLA, before it is loaded, how many threads it may use."""
    if threads is not None:
        flags = f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()} intra_op_parallelism_threads={threads}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()


def _complete(trainer: Any, json: bool) -> None:
    """Finish a run with bars, pictures and a table."""
    from cvflows.reports.curves import draw_run
    from cvflows.runs.session import complete
    from cvflows.terminal import count_progress, print_run, train_progress

    config = trainer.config
    with (
        trainer.folder.locked(),
        train_progress(f"{config.method} on {config.task}", config.steps) as tick,
        count_progress("final episodes", config.final_episodes) as count,
    ):
        figures = complete(trainer, tick, count)
    figures |= {"out": str(trainer.folder.path), "picture": str(draw_run(trainer.folder))}
    if json:
        return _print_json(figures)
    print_run(figures)
    return None


def _print_json(value: Any) -> None:
    print(json_module.dumps(value, ensure_ascii=False, indent=2))


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
