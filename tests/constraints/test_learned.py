"""State-wise constraints: what is learned is what the worlds do, and it keeps them safe."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cases import CASES
from cvflows.constraints.learned import SLIVER, deep_point
from cvflows.constraints.spec import describe, rebuild
from cvflows.envs.worlds import LEFT


def left(task, episodes, push, seed=0):
    """Share of episodes that end by leaving the safe region, with random actions or pushing at one wall."""
    env = task.make_env(guard=True)
    rng = np.random.default_rng(seed)
    ended = []
    for episode in range(episodes):
        env.reset(seed=seed + episode)
        direction = np.zeros(task.action_dim)
        direction[rng.integers(task.action_dim)] = rng.choice([-1.0, 1.0])
        done = False
        while not done:
            action = direction if push else rng.uniform(-1, 1, task.action_dim)
            _, _, terminated, truncated, info = env.step(action)
            done = terminated or truncated
        ended.append(info["ended"] == LEFT)
    return np.mean(ended)


@pytest.mark.parametrize("push", [False, True], ids=["random", "pushing"])
@pytest.mark.parametrize("name", ["Space-Corridor", "Pole"])
def test_stopping_distance_keeps_momentum_safe(name, push):
    assert left(cv.task(name).learn(episodes=200, self_test=0).task, 12, push) == 0


@pytest.mark.optimised
@pytest.mark.thorough
def test_the_paper_form_keeps_the_ball_safe_but_not_the_ship():
    assert left(cv.task("Ball3D").learn("paper", episodes=400, self_test=0).task, 12, push=True) == 0
    assert (
        left(cv.task("Space-Arena").learn("paper", episodes=100, family="affine", self_test=0).task, 6, push=True) > 0.5
    )


def test_learns_what_the_ship_does():
    found = cv.task("Space-Corridor").learn(episodes=100, self_test=0).learned
    exact = CASES["learned ship"].constraint
    x, _ = CASES["learned ship"].draw(0, 50)
    for state in jnp.asarray(x):
        for mine, theirs in zip(found.constraint.model(state), exact.model(state), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=2e-6)
    np.testing.assert_allclose(found.constraint.persistence, 0.95, atol=1e-3)
    assert max(signal.error for signal in found.signals) < 1e-6
    assert found.family == "affine"


def test_chooses_a_richer_model_where_it_predicts_better():
    rng = np.random.default_rng(0)
    before, actions = rng.uniform(-1, 1, (3000, 2)), rng.uniform(-1, 1, (3000, 1))
    after = before + np.stack([0.1 * before[:, 1] ** 2 + 0.05 * actions[:, 0], 0 * before[:, 0]], axis=1)
    found = cv.learn(cv.Transitions(before, actions, after), cv.Ranges({0: (-1.0, 1.0)}))
    assert found.family == "quadratic"
    assert max(signal.error for signal in found.signals) < 1e-5
    kept = cv.learn(cv.Transitions(before, actions, after), cv.Ranges({0: (-1.0, 1.0)}), family="affine")
    assert max(signal.error for signal in kept.signals) > 1e-3


def test_room_is_what_braking_needs():
    """Simulated braking from the edge of the set stops before the wall, and not long before it."""
    constraint = CASES["learned ship"].constraint
    for position, speed in ((0.5, 0.3), (0.8, 0.1), (0.3, 0.0), (0.9, 0.02)):
        x, v = position, speed
        action = chosen = float(constraint.project([x, 0.5, v, 0.0], [1.0, 0.0])[0])
        furthest = x
        for _ in range(400):
            v += 0.1 * action
            x += 0.1 * v
            v *= 0.95
            furthest, action = max(furthest, x), -1.0
            if v < 0:
                break
        assert furthest <= 0.95 + 1e-6
        assert chosen == 1.0 or furthest > 0.95 - 0.25 * (0.95 - position) - 0.02


def test_a_row_that_cannot_be_met_leaves_the_best_that_can_be_done():
    constraint = CASES["learned ship"].constraint
    lost = np.array([0.99, 0.5, 0.4, 0.0], np.float32)  # about to cross the right wall
    found = constraint.projection(lost, np.array([1.0, 0.3], np.float32))
    assert int(found.outcome) != cv.Outcome.EMPTY
    assert -1 <= float(found.action[0]) <= -1 + 2.1 * SLIVER
    assert float(found.action[1]) == pytest.approx(0.3, abs=1e-4)


def test_rows_that_contradict_each_other_give_the_least_violation():
    offset, normal = jnp.asarray([0.5, 0.5]), jnp.asarray([[1.0, 0.0], [-1.0, 0.0]])
    constraint = cv.HalfSpaces(2, 2)
    x = jnp.concatenate([offset, normal.ravel()])
    found = constraint.projection(x, jnp.asarray([0.9, 0.2]))
    assert int(found.outcome) == cv.Outcome.EMPTY
    assert float(found.action[0]) == pytest.approx(0.0, abs=1e-2)


def test_deep_point_moves_continuously():
    """A wall comes closer in small steps: the point moves by as little, and is the origin while that has room."""
    normal = jnp.asarray([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    offsets = jnp.stack([jnp.asarray([wall, -1.0, wall - 0.3]) for wall in np.linspace(-0.9, 0.97, 2000)])
    points = jax.jit(jax.vmap(lambda offset: deep_point(offset, normal)))(offsets)
    rows = offsets + points @ normal.T
    assert float(jnp.max(rows)) < 0
    assert float(jnp.max(jnp.abs(jnp.diff(points, axis=0)))) < 0.01
    np.testing.assert_array_equal(points[:400], 0.0)


def test_deep_point_is_inside_whenever_there_is_room():
    rng = np.random.default_rng(0)
    deep = jax.jit(deep_point)
    for _ in range(50):
        middle = rng.uniform(-0.8, 0.8, 3)
        normal = rng.permutation(np.eye(3))[:2].repeat(2, axis=0) * np.array([[1], [-1], [1], [-1]])
        normal = normal + rng.normal(0, 0.02, normal.shape)
        offset = -normal @ middle - 0.1
        point = deep(jnp.asarray(offset, jnp.float32), jnp.asarray(normal, jnp.float32))
        assert np.all(offset + normal @ np.asarray(point) < -0.02)
        assert np.abs(point).max() <= 1


@pytest.mark.optimised
@pytest.mark.parametrize(("form", "family"), [("paper", "network"), ("drift", "affine"), ("stopping", "quadratic")])
def test_survives_the_trip_through_json(form, family):
    learned = cv.task("Ball1D").learn(form, episodes=50, family=family, self_test=0).learned
    again = rebuild(json.loads(json.dumps(describe(learned.constraint))))
    x, a = jax.random.normal(jax.random.key(0), (20, 3)), jax.random.normal(jax.random.key(1), (20, 1))
    np.testing.assert_allclose(again.violation(x, a), learned.constraint.violation(x, a), rtol=1e-5, atol=1e-6)
    assert (again.form, again.context_dim, again.action_dim) == (form, 3, 1)
    assert json.loads(json.dumps(learned.as_json()))["model"] == family
