"""Run folders of made-up figures, to measure and test reports with; nothing was trained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np


def write_run(
    folder: Path,
    name: str,
    method: str,
    seed: int,
    *,
    steps: int = 100_000,
    episodes: int = 500,
    complete: bool = True,
    executed: int = 0,
) -> Path:
    """A run folder with smooth returns and fading violations; `executed`: forbidden actions in the first episode."""
    import cvflows as cv
    from cvflows.runs.checkpoint import Counts
    from cvflows.runs.config import Inputs, make_config
    from cvflows.runs.folder import RunFolder, csv_lines
    from cvflows.runs.tally import Episode, summarise

    rng = np.random.default_rng([seed, sum(map(ord, name + method))])
    skill = 50 + sum(map(ord, method)) % 50
    task, run = cv.task(name), RunFolder(folder)
    config = make_config(task, method, steps=steps, seed=seed)
    config = replace(config, inputs=Inputs("0" * 64))
    run.lock.acquire()
    run.create(config)
    done = steps if complete else steps // 2
    ends = np.linspace(steps / episodes, steps, episodes).astype(int)
    ends = ends[ends <= done]
    progress = 1 - np.exp(-4 * ends / steps)
    table = [
        Episode(
            step=int(end),
            number=index,
            reward=float(skill * share + rng.normal(0, 3)),
            length=int(steps / episodes),
            violations=int(rng.binomial(int(steps / episodes), 0.4 * (1 - share))),
            violation=float(1 - share),
            empty=0 if index else executed,
            executed=0 if index else executed,
        )
        for index, (end, share) in enumerate(zip(ends, progress, strict=True))
    ]
    run.append("metrics.csv", csv_lines([vars(episode) for episode in table], heading=True))
    rows: list[dict[str, Any]] = []
    for step in range(5000, done + 1, 5000):
        value = float(skill * (1 - np.exp(-4 * step / steps)) + rng.normal(0, 2))
        rows.append({"step": step, **summarise([replace(table[-1], reward=value)])})
    run.append("evaluations.csv", csv_lines(rows, heading=True))
    seconds = {"step": done, "from": 0, "seconds": round(done / 300, 3)}
    run.append("timing.csv", csv_lines([seconds], heading=True))
    run.save({}, {}, Counts(done, len(table), 0, {}, dict(rng.bit_generator.state)))
    if complete:
        last = {"step": steps, **summarise([replace(table[-1], reward=float(skill + rng.normal(0, 2)))])}
        figures = {"task": name, "method": method, "seed": seed, "steps": steps, "fingerprint": config.fingerprint}
        run.finish({**figures, "training": summarise(table), "final": last, "violations_count": task.metric})
    run.lock.release()
    return folder


def write_map(out: Path, name: str) -> None:
    """The map that the runs of a suite in `out` share on a task, as it is before any fit."""
    import cvflows as cv
    from cvflows.agents.methods import METHODS
    from cvflows.maps.fit import Fitted
    from cvflows.maps.kinds import kind_for
    from cvflows.maps.quality import measure
    from cvflows.runs.fitting import FitReport, save_report
    from cvflows.runs.grid import SHARED, map_folder

    task = cv.task(name)
    kind = kind_for(task.constraint)
    map_ = cv.make_map("auto", task.constraint, task.contexts)
    report = FitReport(name, kind, Fitted(map_, np.zeros(0), (), 0.0, 0.0), measure(map_, task.contexts), 0.0, 0)
    save_report(report, map_folder(out / SHARED / name, METHODS["SAC+CVFlow"]))


def spoil(folder: Path) -> None:
    """Cut a config off in the middle."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()))[:40])
