"""From the violation signal or from feasible samples? The paper's RealNVP trained both ways, at equal gradient steps.

Uniform base, so that coverage is measured exactly. The likelihood needs 100,000 feasible pairs first; their time is
counted apart. The full run draws the figure in docs/images.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import main

TASKS = ("R+L2", "R+D", "H+M", "HC+O")
WAYS = ("CV-Flow", "maximum likelihood")
PAIRS = 100_000
FIGURE = Path("docs/images/flow-comparison.png")


def fit_both(name: str, steps: int) -> list[dict[str, Any]]:
    """One task, both ways."""
    import jax

    from cvflows.constraints.sample import feasible_pairs
    from cvflows.maps.fit import FitConfig, fit, fit_to_samples
    from cvflows.maps.kinds import make_map
    from cvflows.maps.quality import measure
    from cvflows.tasks.catalogue import task as find_task

    task = find_task(name)
    settings: dict[str, Any] = {"steps": steps, "batch": 256, "learning_rate": 1e-3, "check_every": max(steps // 12, 1)}
    results = []
    for way in WAYS:
        map_ = make_map("realnvp", task.constraint, task.contexts, base="uniform", width=128)
        began = time.perf_counter()
        if way == "CV-Flow":
            sampling = 0.0
            fitted = fit(map_, task.contexts, FitConfig(**settings))
        else:
            pairs = feasible_pairs(task.constraint, task.contexts, jax.random.key(1), min(PAIRS, 100 * steps))
            sampling = time.perf_counter() - began
            fitted = fit_to_samples(map_, task.contexts, pairs, FitConfig(**settings, gradient_clip=0.1))
        quality = measure(fitted.map, task.contexts)
        results.append(
            {
                "task": name,
                "way": way,
                "gradient_steps": fitted.steps,
                "seconds": round(fitted.seconds, 1),
                "sampling_seconds": round(sampling, 1),
                **{key: getattr(quality, key) for key in ("accuracy", "recall", "f1", "kl", "mean_violation")},
                "checks": [check._asdict() for check in fitted.checks],
            }
        )
    return results


def run(quick: bool) -> dict[str, Any]:
    """RealNVP from violations against RealNVP from feasible samples."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    from rich.console import Console
    from rich.progress import track

    names = TASKS[:1] if quick else TASKS
    fits = []
    for name in track(names, description="fitting flows", console=Console(stderr=True)):
        fits += fit_both(name, 120 if quick else 3000)
    if not quick:
        draw(fits, FIGURE)
    return {"fits": fits, "bars": []}


def draw(fits: list[dict[str, Any]], path: Path) -> None:
    """Accuracy, recall and F1 over training, a column per task."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    colours = dict(zip(WAYS, ("#1f4e79", "#c8553d"), strict=True))
    figure = Figure(figsize=(13, 7.2), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(3, len(TASKS), sharex=True, sharey=True)
    for fit in fits:
        column = TASKS.index(fit["task"])
        steps = [check["step"] for check in fit["checks"]]
        for row, name in enumerate(("accuracy", "recall", "F1")):
            values = [_value(check, name) for check in fit["checks"]]
            grid[row][column].plot(steps, values, marker="o", ms=3, color=colours[fit["way"]], label=fit["way"])
            grid[row][column].grid(alpha=0.3)
            grid[row][0].set_ylabel(f"{name} %")
        grid[0][column].set_title(fit["task"])
        grid[2][column].set_xlabel("gradient step")
    grid[2][-1].legend(frameon=False, loc="lower right")
    figure.suptitle("RealNVP with a uniform base, trained from violations or from feasible samples")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _value(check: dict[str, float], name: str) -> float:
    accuracy, recall = check["accuracy"], check["recall"]
    f1 = 2 * accuracy * recall / max(accuracy + recall, 1e-12)
    return 100 * {"accuracy": accuracy, "recall": recall, "F1": f1}[name]


def table(report: dict[str, Any]) -> str:
    lines = [
        "| task | trained from | accuracy | recall | F1 | mean CV | steps | fit s | sampling s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {fit['task']} | {fit['way']} | {fit['accuracy']:.2%} | {fit['recall']:.1%} | {fit['f1']:.1%} "
        f"| {fit['mean_violation']:.1e} | {fit['gradient_steps']} | {fit['seconds']} | {fit['sampling_seconds']} |"
        for fit in report["fits"]
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main("flow_comparison", run, table)
