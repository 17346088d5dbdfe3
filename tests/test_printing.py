"""Tables at 80 columns: nothing is cut off, and no word of a cell is split."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cvflows.agents.methods import METHODS
from cvflows.cli import main
from cvflows.figures import Status, seconds_left
from cvflows.printing import print_fit, print_run, table_of
from cvflows.tasks.catalogue import TASKS
from cvflows.terminal import RunsView, duration, print_runs

SIGNAL = {
    "form": "stopping",
    "model": "quadratic",
    "transitions": 100_000,
    "episodes": 1000,
    "seconds": 12.3,
    "costs": [
        {"limit": f"s{index} ≥ 0.05", "error": 1.2e-7, "spread": 0.012, "worst": 1e-6, "persistence": 0.95}
        | {"push": 1.2e-4, "strength": 0.013, "overpowered": 0.0}
        for index in range(4)
    ],
    "self_test": {
        "passed": False,
        "problem": None,
        "unseen": [],
        "seconds": 1.0,
        "policies": [
            {
                "policy": "random",
                "episodes": 20,
                "began_outside": 3,
                "left": 0,
                "steps": 9,
                "projected": 1,
                "exits": [],
            },
            {"policy": "push at s0 ≥ 0.05", "episodes": 20, "began_outside": 0, "left": 17, "steps": 9, "projected": 1}
            | {"exits": [{"limit": "s0 ≥ 0.05", "cause": "wrong model", "episodes": 17}]},
        ],
    },
}


@pytest.fixture(autouse=True)
def _narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")


def check(printed, *texts):
    """Every word of the texts is printed whole, in lines of at most 80 columns."""
    assert max(map(len, printed.splitlines())) <= 80
    assert "…" not in printed
    missing = {word for text in texts for word in text.split()} - set(printed.split())
    assert not missing


def test_tasks(capsys):
    assert main(["tasks"]) == 0
    texts = [text for task in TASKS.values() for text in (task.name, task.environment, task.description, task.formula)]
    check(capsys.readouterr().out, "environment", *texts)


def test_methods(capsys):
    assert main(["methods"]) == 0
    texts = [text for one in METHODS.values() for text in (one.name, one.algorithm.__name__, one.description)]
    check(capsys.readouterr().out, "algorithm", *texts)


@pytest.mark.parametrize("name", METHODS)
def test_settings(name, capsys):
    assert main(["settings", name, "--task", "Space-Corridor"]) == 0
    texts = [text for one in METHODS[name].configure({}).described() for text in (one.name, one.allowed)]
    check(capsys.readouterr().out, *texts)


def test_a_run(capsys):
    part = {"episodes": 1234, "return": -12345.67, "return_std": 1234.56, "cv_percent": 12.345, "cv_magnitude": 1.2e-05}
    part |= {"projections": 123_456, "left_percent": 12.34, "length": 1000.0, "empty_count": 12, "executed_count": 3}
    figures = {"method": "DDPG+CVFlow", "task": "Space-Corridor", "training": part, "final": part, "signal": SIGNAL}
    print_run({**figures, "steps": 10**6, "seconds": 12345.0, "steps_per_second": 81.0})
    numbers = "1,234 -12345.67 ± 1234.56 12.345 1.2e-05 123,456 12.34 1000"
    check(capsys.readouterr().out, numbers, "training final projected length", "persistence braking wrong model")


FEWER = {"calm": None, "lipschitz": None, "compared": 0, "transport": 0.0}


@pytest.mark.parametrize(
    ("moves", "texts"),
    [
        ({"calm": 0.0123, "lipschitz": 12.345, "compared": 16_384, "transport": 0.25}, "0.0123 12.3 16,384 0.25"),
        ({**FEWER, "calm": 0.0, "lipschitz": 0.0}, "there are no contexts"),
        (FEWER, "– no latent has two actions"),
    ],
)
def test_a_fit(moves, texts, capsys):
    figures = {"task": "Space-Corridor", "map": "boxspline", "seed": 3, "seconds": 12.3, "total_seconds": 45.6}
    figures |= {"gradient_steps": 3000, "penalty": 1e3, "accuracy": 0.99987, "recall": 0.9876, "covered": 0.98}
    figures |= {"f1": 0.99, "kl": 0.123, "mean_violation": 1.2e-7, "infeasible": 12, "latents": 131_072}
    figures |= {"contexts": 512, "signal": SIGNAL, "out": "maps/x", "picture": "maps/x/map.png"}
    print_fit(figures | moves)
    words = "boxspline compilation measuring infeasible, equally 131,072 98.76% s3 ≥ 0.05 Lipschitz"
    printed = capsys.readouterr().out
    check(printed, words, texts)
    assert "nan" not in printed
    assert ("transport" in printed) == bool(moves["transport"])


def status(task, method, seed, state="running", step=123_456, value=-1234.56):
    return Status(Path(f"runs/{task}/{method}/{seed}"), task, method, seed, state, step, 10**6, value, 12.34)


def test_many_runs(capsys):
    some = [status(task, method, 10) for task in TASKS for method in METHODS]
    few = [status("Ball1D", "SAC", 11, "cut off"), status("Ball1D", "SAC", 12, "complete", 10**6)]
    print_runs(some + few)
    check(capsys.readouterr().out, *TASKS, *METHODS, "123,456/1,000,000 -1234.6 12.34 1/3")
    print_runs([some[0], *few])
    check(capsys.readouterr().out, "123,456/1,000,000 -1234.6 12.34 (cut off) 1/2")


def test_the_live_view(capsys):
    view, earlier = RunsView(), status("Space-Corridor", "DDPG+CVFlow", 10, step=0, value=math.nan)
    view.render([earlier], ["Space-Corridor shared"], 80)
    view.render([status("Space-Corridor", "DDPG+CVFlow", 10)], ["Space-Corridor shared"], 80)
    Console().print(view.render([status("Space-Corridor", "DDPG+CVFlow", 10)], ["Space-Corridor shared"], 80))
    check(capsys.readouterr().out, "Space-Corridor DDPG+CVFlow 123,456/1,000,000 steps/s min preparing shared")


def test_what_is_left_is_estimated_from_runs_that_are_alike():
    fast = [replace(status("H+M", "PPO", seed, "complete", 10**6), speed=1000.0) for seed in range(3)]
    assert seconds_left([status("H+M", "PPO", 3)]) is None
    assert seconds_left([*fast, status("H+M", "PPO", 3, "waiting", 0)]) == pytest.approx(1000)
    running = [replace(status("W+M", "SAC", seed, step=0), speed=100.0) for seed in range(2)]
    both = [*fast, *running, status("HC+O", "SAC", 0, "waiting", 500_000), status("R+D", "PPO", 0, "failed", 0)]
    assert seconds_left(both) == pytest.approx((10_000 + 10_000 + 5_000) / 2)
    own = {str(running[0].folder): 1e6, str(running[1].folder): 1e6}
    assert seconds_left(both, own) == pytest.approx((1 + 1 + 0.5) / 2)


def test_a_grid_of_hundreds_is_summed_up(capsys):
    some = [replace(status(f"T{n}", "SAC", 0, step=n * 1000), speed=50.0, memory=10**9) for n in range(60)]
    some += [status("T0", "PPO", n, "complete", 10**6) for n in range(200)] + [status("T1", "PPO", 0, "failed")]
    print_runs(some)
    said = capsys.readouterr().out
    check(said, "and 40 more that have begun")
    line = next(line for line in said.splitlines() if line.startswith("261 runs"))
    assert line.split("; ") == [*("261 runs: 200 complete, 60 running, 1 failed", "5 h 24 min left", "60.0 GB")]
    assert [duration(seconds) for seconds in (30, 5940, 6000, 172_799, 200_000)] == [
        *("0 min", "99 min", "1 h 40 min", "2 d 0 h", "2 d 7 h")
    ]


def test_a_column_is_as_wide_as_its_longest_word(capsys):
    table = table_of(("name", "text"), [("a" * 30, "one two " * 20), ("b", "c" * 40)])
    Console().print(table)
    check(capsys.readouterr().out, "a" * 30, "c" * 40)


def test_brackets_in_paths_are_printed_as_they_are(tmp_path, capsys):
    part = {"episodes": 1, "return": 1.0, "return_std": 0.0, "cv_percent": 0.0, "cv_magnitude": 0.0}
    part |= {"projections": 0, "left_percent": 0.0, "length": 3.0}
    figures = {"method": "SAC", "task": "my[red]task", "final": part, "steps": 5, "seconds": 0.0}
    print_run({**figures, "steps_per_second": None, "out": f"{tmp_path}/[x]/[/bold]"})
    said = capsys.readouterr().out
    assert f"out: {tmp_path}/[x]/[/bold]" in said
    assert "my[red]task" in said
    status = Status(tmp_path / "[x]", "a[b]", "c[/d]", 0, "unreadable", 0, 0, problem="[/dim] broken")
    print_runs([status])
    said = " ".join(capsys.readouterr().out.split())
    assert "a[b]" in said
    assert "[/dim] broken" in said
