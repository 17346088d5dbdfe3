"""Every method on some task, and every task of the paper by some method."""

import jax
import numpy as np
import pytest

import cvflows as cv
from cvflows.agents.methods import METHODS, method
from cvflows.agents.ppo import PPO
from cvflows.envs.wrappers import AllowedOnly
from cvflows.runs.config import make_config
from cvflows.runs.folder import RunFolder
from cvflows.runs.preparation import begin_folder
from cvflows.runs.train import Trainer
from cvflows.tasks.catalogue import TASKS

CATALOGUE = set(METHODS)  # before examples in the documents add theirs
PAIRS = {
    "SAC+CVFlow": "H+O+S",
    "SAC+CVFlow-plain": "R+L2",
    "DDPG+CVFlow": "HC+O",
    "PPO+CVFlow": "R+L2",
    "PPO": "R+L2",
    "PPO+Projection": "R+L2",
    "PPO+RayMask": "R+L2",
    "FlowPG": "R+L2",
    "NFW": "R+D",
    "SafetyLayer": "Ball3D",
    "DPre": "Space-Arena",
    "DPre+": "W+M",
    "SPre": "Space-Corridor",
    "SPre+": "W+O+S",
    "DPro": "H+M",
    "DPro+": "H+D",
    "DOpt": "R+L2",
    "DOpt+": "H+D",
    "DAlpha": "Ball1D",
    "DRad": "R+D",
    "SAlpha": "R+L2",
    "SRad": "H+M",
    "ARAM": "R+L2",
    "SAC": "R+L2",
    "TD3": "R+L2",
    "DDPG": "R+L2",
}
"""Methods that take long to compile get sets that do not."""


def test_pairs_cover_every_method_and_every_task_of_the_paper():
    assert set(PAIRS) == CATALOGUE
    assert set(PAIRS.values()) == {task.name for task in TASKS.values() if task.in_paper}


@pytest.mark.parametrize(("method", "name"), PAIRS.items())
def test_every_method_learns_saves_and_goes_on(method, name, tmp_path):
    """Each method, and each task of the paper, at least once; every action is checked before it is executed."""
    task = cv.task(name)
    task = task if task.limits is None else task.learn(episodes=30, self_test=0).task
    overrides = {"hidden": (16, 16)}
    if METHODS[method].algorithm is PPO:
        overrides |= {"rollout": 5, "minibatches": 2, "epochs": 2, "final_rate": 0.5}
    else:
        overrides |= {"batch": 16, "learning_starts": 40, "train_every": 1, "buffer": 2000}
    num_envs = 8 if METHODS[method].algorithm is PPO else 1
    options = {"num_envs": num_envs, "evaluate_every": 10**6, "checkpoint_every": 60}
    config = make_config(task, method, steps=120, overrides=overrides, **options)
    map_ = None
    if METHODS[method].needs_map:
        kind = METHODS[method].map
        options = {"base": "uniform", "width": 8} if method == "FlowPG" else {"splines": False}
        options = {} if kind.startswith("ray") else options
        map_ = cv.make_map(kind, task.constraint, task.contexts, **options)

    def checked():
        return AllowedOnly(task.make_env(), task.constraint, task.reads)

    run = RunFolder(tmp_path / "run")
    trainer = Trainer(task, config, map_, folder=run, make_env=checked)
    begin_folder(run, trainer)
    trainer.run()
    again = Trainer(task, config, map_, folder=RunFolder(run.path), make_env=checked, look_only=True)
    observation = np.zeros((1, task.observation_dim), np.float32)
    assert again.step == 120
    first, second = (jax.tree.leaves(one.learner.state) for one in (trainer, again))
    assert all(np.array_equal(here, there) for here, there in zip(first, second, strict=True))
    again.run(160)
    changed = np.asarray(again.learner.state.actor)
    assert np.isfinite(changed).all()
    assert not np.array_equal(changed, np.asarray(trainer.learner.state.actor))
    assert np.isfinite(again.decide(observation).action).all()
    trainer.close()
    again.close()


def test_robots_that_walk_are_tuned_with_calm_maps_and_the_paper_s_preset_keeps_its_own():
    found = method("SAC+CVFlow")
    assert [found.map_for("tuned", family) for family in ("Hopper", "MuJoCo", "world")] == ["calm", "calm", None]
    assert [found.map_for("paper", family) for family in ("Hopper", "world")] == ["auto", None]
    assert make_config(cv.task("W+M"), "sac+cvflow").map == "calm"
    assert make_config(cv.task("W+M"), "sac+cvflow", map="slice").map == "slice"
