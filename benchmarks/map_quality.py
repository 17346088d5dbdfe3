"""Do maps fill their sets? Accuracy, recall, KL and calm of learned and certified maps on the eight action tasks.

Each fit runs in one of two single-threaded processes; seeds of a task share compiled code through a temporary cache.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from benchmarks.harness import Bar, main
from benchmarks.journal import Journal, run_parts

TASKS = ("R+L2", "R+D", "H+M", "H+O+S", "H+D", "W+M", "W+O+S", "HC+O")
HOLLOW = ("R+D", "H+D")
ROUND = ("R+L2", "R+D")
Job = tuple[str, str, int, dict[str, Any]]
CERTIFIED = ("orb", "slice", "shell", "gauge")
PAPER_FLOW = {
    "penalty": 1000.0,
    "anneal": 0.0,
    "batch": 256,
    "learning_rate": 1e-3,
    "steps": 2000,
    "gradient_clip": 0.1,
}
"""The paper's RealNVP and constant λ, with a higher rate than its 1e-5 and 2,000 of its 500,000 steps."""


def kinds_for(task: str) -> dict[str, dict[str, Any]]:
    """Every map to try on a task, with its fit's settings."""
    best = "shell" if task in HOLLOW else "slice"
    kinds: dict[str, dict[str, Any]] = {"boxspline": {}, best: {}, f"{best} plain": {}, "realnvp": PAPER_FLOW}
    if task in ROUND:
        kinds |= {"orb": {}}
    if task not in HOLLOW:
        kinds |= {"gauge": {}, "gauge plain": {}}
    return kinds


def jobs(quick: bool) -> list[Job]:
    """The bars' maps first, the paper's flow last."""
    if quick:
        return [("R+L2", kind, 0, {"steps": 300}) for kind in ("boxspline", "slice")]
    work = [
        (task, kind, seed, settings)
        for task in TASKS
        for kind, settings in kinds_for(task).items()
        for seed in range(1 if "plain" in kind or kind in ("orb", "realnvp") else 3)
    ]
    return sorted(work, key=lambda job: (job[1] == "realnvp", job[1] == "gauge"))


def fit_config(name: str, kind: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Every setting of a fit."""
    from cvflows.maps.fit import FitConfig

    chosen = asdict(FitConfig(seed=seed, **settings))
    return {name: value for name, value in chosen.items() if name != "transport" or value}  # rows older than it hold


def fit_one(name: str, kind: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """One fit and its figures."""
    from cvflows.maps.fit import FitConfig
    from cvflows.runs.fitting import fit_map
    from cvflows.tasks.catalogue import task as find_task

    options: dict[str, Any] = {"splines": False} if kind.endswith("plain") else {}
    report = fit_map(find_task(name), kind.removesuffix(" plain"), FitConfig(seed=seed, **settings), **options)
    return {**report.as_json(), "map": kind}


def run(quick: bool, journal: Journal) -> dict[str, Any]:
    """Maps of every kind on every action task, three seeds each; one of the paper's flow."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = cache  # seeds of one map share what is compiled
        fits = [row["figures"] for row in run_parts(fit_one, jobs(quick), "fitting maps", journal, config=fit_config)]
    fits.sort(key=lambda fit: TASKS.index(fit["task"]))
    return {"fits": fits, "bars": [] if quick else list(bars(fits))}


def bars(fits: list[dict[str, Any]]) -> Iterator[Bar]:
    """The worst seed must do."""
    for task in TASKS:
        learned = [fit for fit in fits if fit["task"] == task and fit["map"] == "boxspline"]
        recall = 0.92 if task == "W+O+S" else 0.95
        yield Bar(f"{task} learned accuracy", min(fit["accuracy"] for fit in learned), 0.995)
        yield Bar(f"{task} learned recall", min(fit["recall"] for fit in learned), recall)
        yield Bar(f"{task} learned KL", max(fit["kl"] for fit in learned), 0.12, at_least=False)
        yield Bar(f"{task} learned seconds", max(fit["seconds"] for fit in learned), 60, at_least=False)
        best = "shell" if task in HOLLOW else "slice"
        certified = [fit for fit in fits if fit["task"] == task and fit["map"] == best]
        every = [fit for fit in fits if fit["task"] == task and fit["map"].split()[0] in CERTIFIED]
        yield Bar(f"{task} certified infeasible", max(fit["infeasible"] for fit in every), 0, at_least=False)
        yield Bar(f"{task} certified recall", min(fit["recall"] for fit in certified), 0.98)
        yield Bar(f"{task} certified KL", max(fit["kl"] for fit in certified), 0.06, at_least=False)
        yield Bar(f"{task} certified seconds", max(fit["seconds"] for fit in certified), 60, at_least=False)


def largest(fits: list[dict[str, Any]], name: str) -> str:
    """The largest of a figure; a dash where a fit has none, as fits have that were measured before there was one."""
    values = [fit[name] for fit in fits if fit.get(name) is not None]
    return f"{max(values):.2g}" if len(values) == len(fits) else "–"


def table(report: dict[str, Any]) -> str:
    """Per task and map: the worst seed's shares and KL, the slowest fit."""
    lines = [
        "| task | map | seeds | accuracy | recall | F1 | KL | mean CV | calm | Lipschitz | steps | fit s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for fit in report["fits"]:
        groups.setdefault((fit["task"], fit["map"]), []).append(fit)
    for (task, kind), some in groups.items():
        low = {name: min(fit[name] for fit in some) for name in ("accuracy", "recall", "f1")}
        high = {name: max(fit[name] for fit in some) for name in ("kl", "mean_violation", "gradient_steps", "seconds")}
        calm, lipschitz = (largest(some, name) for name in ("calm", "lipschitz"))
        lines.append(
            f"| {task} | {kind} | {len(some)} | {low['accuracy']:.2%} | {low['recall']:.1%} | {low['f1']:.1%} "
            f"| {high['kl']:.3f} | {high['mean_violation']:.1e} | {calm} | {lipschitz} "
            f"| {high['gradient_steps']} | {high['seconds']:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main("map_quality", run, table, parts="fits")
