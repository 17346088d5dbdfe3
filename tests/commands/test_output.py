"""What commands print for machines is JSON that any program reads, also of runs in which nothing ended."""

import json
import math

import pytest

from cvflows.cli import main
from cvflows.commands.output import print_json


def strictly(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_numbers_that_json_lacks_are_null(capsys):
    print_json({"mean": math.nan, "rows": [{"worst": math.inf}, (1, -math.inf)], "name": "θ", "count": 3, "ok": True})
    said = strictly(capsys.readouterr().out)
    assert said == {"mean": None, "rows": [{"worst": None}, [1, None]], "name": "θ", "count": 3, "ok": True}


@pytest.mark.parametrize("json_wanted", [True, False])
def test_a_run_in_which_no_episode_ended(json_wanted, tmp_path, capsys):
    short = [
        "--steps",
        "64",
        "--num-envs",
        "4",
        "--set",
        "rollout=16",
        "--set",
        "minibatches=2",
        "--final-episodes",
        "1",
    ]
    words = ["train", "R+L2", "--method", "PPO+CVFlow", *short, "--final-episodes", "1"]
    assert main([*words, "--out", str(tmp_path / "run"), *(["--json"] if json_wanted else [])]) == 0
    said = capsys.readouterr().out
    if json_wanted:
        assert strictly(said)["training"]["return"] is None
    else:
        assert "none ended" in said
        assert "nan" not in said
