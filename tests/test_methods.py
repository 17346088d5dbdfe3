"""The parts that methods are composed of, against closed forms; and every method on some task."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import cvflows as cv
from cvflows.agents.corrections import correct_worst, penalty
from cvflows.agents.methods import METHODS
from cvflows.agents.ppo import PPO
from cvflows.agents.rays import alpha, alpha_log_density, radial
from cvflows.agents.rejection import share_of_rejected
from cvflows.constraints.legacy import legacy_rows
from cvflows.envs.wrappers import AllowedOnly
from cvflows.runs.agent import begin_folder
from cvflows.runs.config import make_config
from cvflows.runs.store import RunFolder
from cvflows.runs.train import Trainer
from cvflows.tasks.catalogue import TASKS

CONVEX = {
    "disc": (cv.Ball(2, 0.5), np.zeros(0)),
    "power": (cv.Orthoplex(3, 2.0), np.array([3.0, -1.0, 2.0])),
    "spent power": (cv.MaxPower(3, 1.0), np.array([3.0, -1.0, 2.0])),
    "push": (cv.Tip(0.05), np.array([0.7])),
    "half-spaces": (cv.HalfSpaces(2, 2), np.array([-0.2, -0.3, 1.0, 0.5, -0.4, 1.0])),
}
CATALOGUE = set(METHODS)  # before examples in the documents add theirs
PAIRS = {
    "SAC+CVFlow": "H+O+S",
    "DDPG+CVFlow": "HC+O",
    "PPO+CVFlow": "R+L2",
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


@pytest.fixture(params=CONVEX)
def case(request):
    constraint, x = CONVEX[request.param]
    rng = np.random.default_rng(0)
    return constraint, jnp.asarray(x, jnp.float32), rng.normal(size=(200, constraint.action_dim)).astype(np.float32)


def test_rays_end_inside_the_set(case):
    constraint, x, outputs = case
    for squash in (alpha, lambda *given: radial(*given)[0]):
        actions = jax.jit(jax.vmap(lambda v, squash=squash: squash(constraint, x, v)))(outputs)
        assert bool(jnp.all(constraint.contains(x, actions)))
    kept = np.asarray(constraint.contains(x, outputs)) & (np.abs(outputs).max(axis=1) < 0.999)
    drawn = np.asarray(jax.vmap(lambda v: alpha(constraint, x, v))(outputs))
    np.testing.assert_allclose(drawn[kept], outputs[kept], atol=1e-5)
    assert np.abs(drawn[~kept] - outputs[~kept]).max() > 0.1


@pytest.mark.thorough
def test_radial_log_determinant_is_that_of_its_jacobian(case):
    constraint, x, outputs = case
    near = 0.2 * outputs[:50]  # far out the squash is flat beyond what float32 can tell
    found = jax.vmap(lambda v: radial(constraint, x, v)[1])(near)
    jacobians = jax.vmap(jax.jacfwd(lambda v: radial(constraint, x, v)[0]))(near)
    expected = np.linalg.slogdet(np.asarray(jacobians, np.float64))[1]
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_alpha_density_gathers_the_ray_beyond_the_boundary():
    disc, x = cv.Ball(2, 0.5), jnp.zeros(0)
    mean, log_std = jnp.array([0.3, 0.1]), jnp.log(jnp.array([0.4, 0.2]))

    def normal(a):
        z = (a - np.asarray(mean)) / np.exp(np.asarray(log_std))
        return np.exp(-np.sum(z**2) / 2 - np.sum(np.asarray(log_std))) / (2 * np.pi)

    for output in ([0.9, 0.4], [-0.6, 0.1], [0.2, 0.1]):
        found = float(alpha_log_density(disc, x, jnp.array(output), mean, log_std))
        direction = np.array(output) / np.linalg.norm(output)
        beyond, _ = integrate.quad(lambda r, u=direction: r / 0.5 * normal(r * u), 0.5, 6)
        expected = np.log(beyond if np.linalg.norm(output) > 0.5 else normal(np.array(output)))
        assert found == pytest.approx(expected, abs=5e-3)


def test_penalty_is_the_distance_to_a_half_space_and_to_a_ball_nearby():
    plane = cv.HalfSpaces(2, 1)
    x = jnp.array([-0.2, 3.0, 4.0])  # 3a₁ + 4a₂ ≤ 0.2
    outside = jnp.array([0.5, 0.5])
    assert float(penalty(plane, x, outside)) == pytest.approx((3.5 - 0.2) / 5, rel=1e-5)
    slope = jax.grad(lambda a: penalty(plane, x, a))(outside)
    np.testing.assert_allclose(slope, [0.6, 0.8], rtol=1e-5)
    ball = cv.Ball(2, 0.5)
    assert float(penalty(ball, jnp.zeros(0), jnp.array([0.51, 0.0]))) == pytest.approx(0.01, rel=0.02)
    inside = jax.value_and_grad(lambda a: penalty(ball, jnp.zeros(0), a))(jnp.zeros(2))
    assert float(inside[0]) == 0
    assert not np.any(inside[1])


def test_one_step_against_the_worst_row_projects_onto_it():
    plane, x = cv.HalfSpaces(2, 1), jnp.array([-0.2, 3.0, 4.0])
    for a in ([0.5, 0.5], [0.1, 0.2], [0.01, 0.01]):
        expected = plane.project(x, jnp.array(a))
        np.testing.assert_allclose(correct_worst(plane, x, jnp.array(a)), expected, atol=1e-5)


def test_tolerances_of_the_literature():
    units, limits = legacy_rows(cv.task("R+L2").constraint)
    assert units == pytest.approx([0.05])
    assert limits == pytest.approx([(0.05**0.5 + 0.001) ** 2 - 0.05])
    units, limits = legacy_rows(cv.task("H+O+S").constraint)
    assert units.tolist() == [10.0, 0.1]
    assert limits.tolist() == [0.1, 0.01]


def test_share_of_rejected_actions_fades():
    assert [share_of_rejected(step) for step in (0, 9_999, 10_000)] == pytest.approx([0.2, 0.2, 0.198])


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
        overrides |= {"rollout": 5, "minibatches": 2, "epochs": 2}
    else:
        overrides |= {"batch": 16, "learning_starts": 40, "train_every": 1, "buffer": 2000}
    config = make_config(task, method, steps=120, overrides=overrides, evaluate_every=10**6, checkpoint_every=60)
    map_ = None
    if METHODS[method].needs_map:
        options = {"base": "uniform", "width": 8} if method == "FlowPG" else {"splines": False}
        kind = METHODS[method].map
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
