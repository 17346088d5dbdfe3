"""Grids of runs: every task, method and seed; checked; what runs share is prepared once."""

import pytest

from cvflows.cli import main
from cvflows.errors import ArgumentError, StoreError, UnknownNameError
from cvflows.runs.config import method_of
from cvflows.runs.grid import Grid, configs_of, jobs_of, map_folder, read_grids
from cvflows.runs.launch import Local


def test_a_grid_is_every_task_method_and_seed():
    grid = Grid(("r+d", "Ball1D"), ("sac+cvflow", "FlowPG", "SAC"), 2, steps={"ball1d": 500})
    configs = grid.configs()
    assert len(configs) == 12
    assert {config.steps for config in configs if config.task == "Ball1D"} == {500}
    assert {config.steps for config in configs if config.task == "R+D"} == {300_000}


def test_what_runs_share_is_prepared_once(tmp_path):
    jobs = jobs_of([Grid(("R+D", "Ball1D", "R+L2"), ("SAC", "DDPG+CVFlow", "SAC+CVFlow"), 2)], tmp_path)
    first = {job.name: job for job in jobs if job.kind == "prepare"}
    assert len(jobs) == 3 + 18
    assert first["R+D shared"].data["methods"] == [("DDPG+CVFlow", None), ("SAC+CVFlow", None)]
    assert {job.needs for job in jobs if job.kind == "run"} == set(first)
    alone = jobs_of([Grid(("R+D", "Ball1D"), ("SAC",))], tmp_path)  # Ball1D needs its constraint learned
    assert [job.name for job in alone if job.kind == "prepare"] == ["Ball1D shared"]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"methods": ("SAC+CVFlw",)}, UnknownNameError, "did you mean 'SAC\\+CVFlow'"),
        ({"tasks": ("R+D2",)}, UnknownNameError, "unknown task 'R\\+D2'"),
        ({"tasks": ("R+D", "r+d")}, ArgumentError, "`tasks`: expected at least one, each once"),
        ({"seeds": (1, 1)}, ArgumentError, "`seeds`: expected at least one, each once"),
        ({"seeds": 0}, ArgumentError, "`seeds`: expected a whole number ≥ 1"),
        ({"seeds": ()}, ArgumentError, "`seeds`: expected at least one"),
        ({"steps": {"Bal1D": 3}}, UnknownNameError, "did you mean 'Ball1D'"),
    ],
)
def test_bad_grids_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        Grid(**{"tasks": ("R+D",), "methods": ("SAC",), **settings})


SEVERAL = """
final_episodes = 7
[[grid]]
tasks = ["R+D", "R+L2"]
methods = ["PPO+CVFlow"]
seeds = 3
steps = 5000
[[grid]]
tasks = ["R+D"]
methods = ["SAC+CVFlow", "NFW"]
seeds = 2
"""


def test_a_file_may_hold_several_grids(tmp_path):
    """The first seeds of all come first; options choose from their runs."""
    file = tmp_path / "grids.toml"
    file.write_text(SEVERAL)
    grids = read_grids(file)
    assert {grid.final_episodes for grid in grids} == {7}
    configs = configs_of(grids)
    assert [config.seed for config in configs] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert [config.method for config in configs[:4]] == ["PPO+CVFlow", "PPO+CVFlow", "SAC+CVFlow", "NFW"]
    assert {config.steps for config in configs if config.method == "PPO+CVFlow"} == {5000}
    chosen = configs_of(read_grids(file, tasks=("r+d",), methods=("PPO+CVFlow", "nfw"), seeds=(1,)))
    assert [(config.method, config.seed) for config in chosen] == [("PPO+CVFlow", 1), ("NFW", 1)]
    with pytest.raises(ArgumentError, match=r"expected a run of .*grids\.toml, got none"):
        read_grids(file, tasks=("H+M",))
    file.write_text(SEVERAL + '[[grid]]\ntasks = ["R+D"]\nmethods = ["NFW"]\n')
    with pytest.raises(ArgumentError, match="no run in common, got R\\+D NFW 0"):
        configs_of(read_grids(file))
    file.write_text("grid = 3")
    with pytest.raises(ArgumentError, match=r"expected tables, each headed \[\[grid\]\]"):
        read_grids(file)


def test_bad_files_are_refused(tmp_path, capsys):
    file = tmp_path / "grid.toml"
    file.write_text("task = ['R+D']")
    with pytest.raises(UnknownNameError, match="did you mean 'tasks'"):
        read_grids(file)
    file.write_text("tasks = [")
    with pytest.raises(StoreError, match="is not TOML"):
        read_grids(file)
    assert main(["suite", str(tmp_path / "none.toml")]) == 2
    assert main(["suite", "--methods", "SAC"]) == 2
    assert main(["watch", str(tmp_path)]) == 2
    with pytest.raises(ArgumentError, match="`workers`: expected a whole number ≥ 1, got 0"):
        Local(0)
    said = capsys.readouterr().err
    assert "cannot be read" in said
    assert "`tasks`: expected at least one name" in said
    assert "`runs`: expected folders with runs" in said


def test_a_map_is_prepared_for_every_kind_that_runs_take(tmp_path):
    grids = [Grid(("H+M",), ("SAC+CVFlow", "PPO+CVFlow"), 1)]
    (first, *_) = jobs_of(grids, tmp_path)
    assert first.data["methods"] == [("SAC+CVFlow", "calm"), ("PPO+CVFlow", None)]
    assert {map_folder(tmp_path, method_of(config)).name for config in configs_of(grids)} == {"calm"}
