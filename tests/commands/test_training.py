"""Commands that fit, train, resume and evaluate."""

import json

import matplotlib.image
import numpy as np
import pytest
import tyro

import cvflows as cv
from cvflows.cli import main
from cvflows.commands.training import RunOptions
from cvflows.maps.store import load_map
from cvflows.runs.config import as_command, make_config


@pytest.mark.thorough
def test_fit_prints_saves_and_draws(tmp_path, capsys):
    out = tmp_path / "disc"
    assert main(["fit", "r+l2", "--kind", "slice", "--steps", "60", "--out", str(out), "--seed", "4", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["task"] == "R+L2"
    assert figures["map"] == "slice"
    assert (figures["seed"], figures["gradient_steps"], figures["infeasible"]) == (4, 60, 0)
    assert {"seconds", "accuracy", "recall", "f1", "mean_violation"} <= set(figures)
    assert figures["accuracy"] == 1
    pixels = matplotlib.image.imread(figures["picture"])[..., :3]
    uniform = np.array([0x21, 0x90, 0x8C]) / 255  # the colour of density 1
    assert (np.abs(pixels - uniform).max(axis=-1) < 0.12).mean() > 0.02, "the density is not visible"
    assert json.loads((out / "map.json").read_text())["about"]["recall"] == figures["recall"]
    assert load_map(out).constraint == cv.task("R+L2").constraint


def test_fit_refuses_an_unknown_map_in_one_line(capsys):
    assert main(["fit", "R+L2", "--kind", "gouge"]) == 2
    assert "did you mean 'gauge'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("task", "method", "options"),
    [
        ("H+O+S", "SAC+CVFlow", {}),
        ("H+O+S", "SAC+CVFlow", {"preset": "paper"}),
        ("HC+O", "DDPG+CVFlow", {"map": "ray:softness=0.2"}),
        ("R+L2", "SAC+CVFlow", {"preset": "paper", "steps": 12_345, "seed": 7}),
        ("Ball1D", "DDPG+CVFlow", {"map": "gauge", "form": "drift", "evaluate_every": 7, "final_episodes": 3}),
        ("W+M", "PPO+CVFlow", {"num_envs": 3, "checkpoint_every": 77, "evaluation_episodes": 2}),
        ("Space-Arena", "FlowPG", {"overrides": {"hidden": (32, 64, 32), "learning_rate": 1.5e-4, "batch": 17}}),
        ("R+D", "SAC", {"overrides": {"hidden": (8,), "critic_norm": True, "train_every": None, "discount": 0.5}}),
        ("HC+O", "NFW", {"overrides": {"frank_wolfe_rate": 0.3, "activation": "tanh"}, "num_envs": 4}),
        ("R+L2", "SAC+CVFlow", {"overrides": {"entropy": "exact"}, "map": "realnvp"}),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_the_command_of_a_config_gives_the_config(task, method, options):
    config = make_config(cv.task(task), method, **options)
    program, command, *arguments = as_command(config, cv.task(task).family).split()
    assert (program, command) == ("cvflows", "train")
    assert tyro.cli(RunOptions, args=arguments).config() == config


def test_command_line_trains_resumes_and_evaluates(tmp_path, capsys):
    run = str(tmp_path / "run")
    quick = ["--steps", "400", "--set", "hidden=16,16", "--set", "learning_starts=200"]
    assert main(["train", "ball1d", "--method", "sac", *quick, "--out", run, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["method"] == "SAC"
    assert (tmp_path / "run" / "curves.png").stat().st_size > 10_000
    (events,) = (tmp_path / "run" / "tensorboard").glob("events.*")
    assert b"training/return" in events.read_bytes()
    assert main(["resume", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["final"] == figures["final"]
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.*")}
    film, limits = tmp_path / "film.gif", tmp_path / "limits.png"
    assert main(["evaluate", run, "--episodes", "3", "--video", str(film), "--picture", str(limits)]) == 0
    printed = capsys.readouterr().out
    assert "final" in printed
    assert "the paper's best return: 62.90 ± 3.81 (DDPG+CVFlow)" in printed
    assert film.stat().st_size > 1000
    assert limits.stat().st_size > 10_000
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.*")} == before
    assert main(["train", "Ball1D", "--method", "sac", *quick, "--out", run]) == 2
    assert "cvflows resume" in capsys.readouterr().err
