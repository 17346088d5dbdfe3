"""Many runs: train a grid, watch runs, report on them."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from cvflows.commands.output import print_json
from cvflows.errors import ArgumentError, CVFlowsError, MissingExtraError, within


def suite(
    grid: Annotated[Path | None, Positional, arg(metavar="[GRID]")] = None,
    tasks: tuple[str, ...] | None = None,
    methods: tuple[str, ...] | None = None,
    seeds: int | None = None,
    seed_list: tuple[int, ...] | None = None,
    steps: int | None = None,
    launcher: Literal["local", "ray"] = "local",
    workers: int | None = None,
    address: str | None = None,
    retries: int = 3,
    out: Path = Path("runs"),
    mirror: str | None = None,
    json: bool = False,
) -> None:
    """Train every task × method × seed of a grid; run the same command again to resume interrupted runs.

    Args:
        grid: TOML file with tasks, methods, seeds, steps and more; the options below override it. Of a file with
            several grids they choose runs.
        tasks: Names of tasks.
        methods: Names of methods.
        seeds: How many seeds, counted from 0.
        seed_list: The seeds themselves, instead of how many.
        steps: Environment steps of every run, by default those of the preset.
        launcher: Processes of this machine, or a Ray cluster (extra `ray`).
        workers: Processes at a time on this machine, by default one per core.
        address: Address of a Ray cluster; `auto` finds the one this machine belongs to. Without it, a local one is
            started.
        retries: How often Ray starts a run again whose node was lost.
        out: Folder of the runs, TASK/METHOD/SEED below it; for a cluster, one that all nodes share.
        mirror: Address of an object store, such as s3://bucket/path, that runs are copied to and resumed from.
        json: Print one JSON object instead of a table.
    """
    from cvflows.runs.grid import read_grids
    from cvflows.runs.launch import Local, Ray, TerminatedError
    from cvflows.runs.suite import Launcher, Suite
    from cvflows.terminal import live_runs, print_runs

    grids = read_grids(grid, tasks=tasks, methods=methods, seeds=seed_list or seeds, steps=steps)
    started_by: Launcher = Local(workers) if launcher == "local" else Ray(address, retries=retries)
    whole, code = Suite(grids, out, mirror), 1
    with live_runs() as draw:
        try:
            figures = whole.run(started_by, lambda suite: draw(suite.statuses.values(), suite.preparing))
        except KeyboardInterrupt as stop:
            code = 128 + (stop.number if isinstance(stop, TerminatedError) else signal.SIGINT)
            figures = whole.summary() | {"interrupted": True}
    if json:
        print_json(figures)
    else:
        print_runs(whole.statuses.values())
        for name, problem in figures["failures"].items():
            print(f"cvflows: {name}: {problem}", file=sys.stderr)
        if "interrupted" in figures:
            print("cvflows: interrupted; the same command resumes from the last checkpoints", file=sys.stderr)
    if figures["failures"] or "interrupted" in figures:
        raise SystemExit(code)


def watch(
    runs: Annotated[tuple[Path, ...], Positional, arg(metavar="RUN [RUN ...]")],
    every: float = 2.0,
    once: bool = False,
    json: bool = False,
) -> None:
    """Watch runs, wherever they are being trained, until all are complete.

    Args:
        runs: Folders of runs, or folders above them.
        every: Seconds between looks.
        once: Look once and exit.
        json: Print one JSON object and exit.
    """
    import time

    within("every", every, 0, 86_400, above=True)
    from cvflows.figures import Status
    from cvflows.runs.progress import dump, find_runs, read_status
    from cvflows.terminal import live_runs, print_runs

    def look() -> list[Status]:
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
                draw(statuses, ())
                time.sleep(every)
                statuses = look()
    print_runs(statuses)
    return None


def report(
    runs: Annotated[tuple[Path, ...], Positional, arg(metavar="RUN [RUN ...]")],
    out: Annotated[Path, arg(aliases=["-o"])] = Path("report.html"),
    title: str = "Training report",
    maps: bool = True,
    json: bool = False,
) -> None:
    """Make one self-contained page from runs, and its figures as PNG and PDF in a folder next to it.

    Args:
        runs: Folders of runs, or folders above them.
        out: File of the page.
        title: Heading of the page.
        maps: Draw the map of every task; takes a few seconds each.
        json: Print one JSON object with every figure instead of a line.
    """
    if out.is_dir() or not out.name:
        raise ArgumentError("out", "the name of a file", out)
    from cvflows.reports.gallery import MapFigures, map_pictures
    from cvflows.reports.page import write_page
    from cvflows.reports.plots import write_plots
    from cvflows.reports.records import load_runs
    from cvflows.reports.tables import Tables
    from cvflows.runs.progress import find_runs
    from cvflows.terminal import count_progress, print_lines

    with count_progress("reading runs", len(find_runs(runs))) as tick:
        tables = Tables(load_runs(runs, tick))
    figures = out.with_name(f"{out.stem}_figures")
    pictures: list[MapFigures] = []
    if maps:
        with count_progress("drawing maps", len(tables.tasks)) as tick:
            pictures, notes = map_pictures(tables, figures, tick)
        tables.notes += notes
    plots = write_plots(tables, figures)
    try:
        page = write_page(tables, out, title=title, maps=pictures)
    except MissingExtraError as error:
        raise CVFlowsError(f"{error} (its figures are in {figures})") from None
    if json:
        names = ("return", "training", "final", "forbidden", "magnitude", "speed")
        return print_json(
            {
                "page": str(page),
                "figures": [str(path) for path in plots],
                "tables": {name: tables.cells(name) for name in names},
                "aggregates": tables.aggregates(),
                "maps": pictures,
                "runs": tables.runs(),
                "notes": tables.notes,
            }
        )
    print_lines([f"{page} ({page.stat().st_size / 1e6:.1f} MB), figures in {figures}"], tables.notes)
    return None
