"""Boards get the figures that the run folder holds, and know a resumed run."""

import math

import pytest

import cvflows as cv
from cvflows.runs.board import TensorBoard
from cvflows.runs.config import make_config
from cvflows.runs.session import begin, resume
from small import config_of


def test_a_return_that_is_not_known_is_not_logged(tmp_path, caplog):
    """tensorboardX complains of NaN, once for each."""
    board = TensorBoard(tmp_path)
    board.log("training", 10, {"return": math.nan, "length": 3.0})
    board.close()
    assert not caplog.records
    assert any(path.stat().st_size for path in tmp_path.iterdir())


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_figures_reach_an_offline_run(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="pip install 'cvflows[wandb]'")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    task = cv.task("R+L2")
    overrides = {"hidden": (16, 16), "batch": 16, "learning_starts": 100}
    config = make_config(task, "SAC", steps=400, overrides=overrides, evaluate_every=200, final_episodes=2)
    trainer = begin(task, config, tmp_path / "run", wandb="trial")
    trainer.run()
    assert wandb.run.config["fingerprint"] == trainer.config.fingerprint
    assert wandb.run.summary["evaluation/return"] == trainer.evaluations[-1]["return"]
    assert wandb.run.summary["step"] == 400
    trainer.close()
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb"))


def test_a_board_knows_a_resumed_run_by_the_same_fingerprint(ball, tmp_path, monkeypatch):
    seen = []

    class Board:
        def __init__(self, project, config, path):
            seen.append(config.fingerprint)

        def log(self, group, step, figures):
            pass

        def close(self):
            pass

    monkeypatch.setattr("cvflows.runs.session.WeightsAndBiases", Board)
    begin(ball, config_of(ball, method="DDPG"), tmp_path, wandb="project").close()
    resume(tmp_path, wandb="project").close()
    assert len(seen) == 2
    assert len(set(seen)) == 1
