"""The nearest allowed action: always inside, optimal, idempotent, differentiable."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import cvflows as cv
from cases import CASES, CONVEX, SETS, USER_POWER, each
from cvflows.constraints.reference import ReferenceSolver

optimised = pytest.mark.optimised
BATCH = 128
seeds = st.integers(0, 2**31 - 1)


def distance(a, b):
    return np.linalg.norm(np.asarray(a, float) - np.asarray(b, float), axis=-1)


@partial(jax.jit, static_argnums=0)
def centres(constraint, x):
    return jax.vmap(constraint.centre)(x)


@optimised
@each(SETS)
@given(seed=seeds, reach=st.sampled_from([0.3, 1.0, 3.0, 30.0]))
def test_lands_inside_and_stays_there(name, seed, reach):
    case = CASES[name]
    x, a = case.draw(seed, BATCH, reach)
    found = case.constraint.projection(x, a)
    assert np.all(np.asarray(found.outcome) != cv.Outcome.EMPTY)
    assert np.all(np.asarray(case.constraint.violation(x, found.action)) == 0)
    np.testing.assert_array_equal(case.constraint.projection(x, found.action).action, found.action)
    np.testing.assert_allclose(found.distance, distance(found.action, a), rtol=1e-4, atol=1e-5)
    inside = np.asarray(case.constraint.violation(x, a)) == 0
    np.testing.assert_array_equal(np.asarray(found.action)[inside], a[inside])
    anchor = case.constraint.projection(x, centres(case.constraint, x)).action
    assert np.all(np.asarray(found.distance) <= distance(anchor, a) * (1 + 1e-5) + 1e-3)


@optimised
@pytest.mark.xdist_group("one half-space")
@pytest.mark.parametrize("seed", [404714459, 1199955536, 1020779759, 870917923, 1989244754])
def test_a_landing_moves_where_its_step_is_below_rounding(seed):
    """The margin is so much nearer than the anchor that the share of the way between them rounds to one."""
    case = CASES["one half-space"]
    x, a = case.draw(seed, BATCH, 0.3)
    found = case.constraint.project(x, a)
    assert np.all(np.asarray(case.constraint.violation(x, found)) == 0)
    np.testing.assert_array_equal(case.constraint.project(x, found), found)


@optimised
@each(SETS)
def test_no_random_feasible_point_is_nearer(name):
    case = CASES[name]
    x, a = case.draw(11, BATCH, 1.5)
    mine = case.constraint.projection(x, a)
    others = case.constraint.projection(x, np.random.default_rng(0).uniform(-1, 1, a.shape)).action
    certain = np.asarray(mine.outcome) == cv.Outcome.EXACT
    assert np.all(np.asarray(mine.distance)[certain] <= distance(others, a)[certain] + 1.1e-3)
    assert name == "user shell" or certain.mean() > 0.9


@optimised
@each(CONVEX)
def test_agrees_with_clarabel(name):
    case = CASES[name]
    x, a = case.draw(3, BATCH)
    solver = ReferenceSolver(case.reference)
    count = 24
    best = np.stack([solver.project(x[i], a[i]) for i in range(count)])
    excess = distance(case.constraint.projection(x, a).action[:count], a[:count]) - distance(best, a[:count])
    assert np.abs(excess).max() < 2e-4


@optimised
@pytest.mark.parametrize(("dim", "inner", "outer"), [(2, 0.2, 0.05**0.5), (3, 1.4**0.5, 1.5**0.5), (5, 1.0, 1.1)])
def test_shell_is_globally_nearest(dim, inner, outer):
    """Against a dense cloud of points of the shell."""
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(400_000, dim))
    cloud *= rng.uniform(inner, outer, (len(cloud), 1)) / np.linalg.norm(cloud, axis=1, keepdims=True)
    cloud = cloud[np.abs(cloud).max(axis=1) <= 1]
    a = rng.uniform(-1.5, 1.5, (40, dim)).astype(np.float32)
    a[0], a[1] = 0, np.eye(dim)[0] * 0.5
    found = np.asarray(cv.Shell(dim, inner, outer).project(None, a))
    best = np.stack([distance(cloud, point).min() for point in a])
    assert np.all(distance(found, a) <= best + 1e-5)


@optimised
@pytest.mark.thorough
def test_search_finds_the_global_optimum_of_a_shell():
    case = CASES["user shell"]
    x, a = case.draw(5, BATCH, 2.0)
    found = case.constraint.projection(x, a)
    best = case.reference.projection(x, a)
    assert np.mean(np.asarray(found.distance - best.distance) < 1e-3) > 0.97


@pytest.mark.thorough
def test_shell_within_a_tighter_box():
    """A quarter of a ring: the radial solver does not apply, the search must stay inside."""
    quarter = cv.Shell(2, 0.5, 0.6) & cv.Box(2, low=0.0)
    a = np.random.default_rng(1).uniform(-1, 1, (BATCH, 2)).astype(np.float32)
    found = quarter.projection(None, a)
    assert np.all(np.asarray(quarter.violation(None, found.action)) == 0)
    angles = np.linspace(0, np.pi / 2, 400)
    arc = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    best = np.min([distance(a[:, None], radius * arc).min(axis=1) for radius in (0.5, 0.55, 0.6)], axis=0)
    inside = np.asarray(quarter.contains(None, a))
    assert np.mean((np.asarray(found.distance) <= best + 5e-3)[~inside]) > 0.97


def test_disconnected_set_without_a_feasible_centre():
    two_discs = cv.Constraint(lambda x, a: jnp.minimum(jnp.sum((a - 0.7) ** 2), jnp.sum((a + 0.7) ** 2)) / 0.01 - 1, 2)
    a = np.random.default_rng(1).uniform(-2, 2, (BATCH, 2)).astype(np.float32)
    found = two_discs.projection(None, a)
    assert np.all(np.asarray(two_discs.violation(None, found.action)) == 0)
    gap = np.minimum(distance(a, np.full(2, 0.7)), distance(a, np.full(2, -0.7))) - 0.1
    assert np.mean(np.asarray(found.distance) - np.maximum(gap, 0) < 1e-2) > 0.95


def test_convex_set_whose_centre_is_infeasible():
    """Phase one finds an anchor: a small ball in a corner, and half-spaces that exclude zero."""
    corner = cv.Constraint(lambda x, a: jnp.sum((a - 0.8) ** 2) / 0.01 - 1, 3, convex=True)
    _, a = CASES["user shell"].draw(2, BATCH)
    found = corner.projection(None, a)
    target = 0.8 + (a - 0.8) * np.minimum(0.1 / distance(a, np.full(3, 0.8)), 1)[:, None]
    assert np.all(np.asarray(corner.violation(None, found.action)) == 0)
    assert np.abs(np.asarray(found.action) - target).max() < 1e-3


def test_empty_sets_say_so_and_violate_least():
    rng = np.random.default_rng(0)
    count, dim, rows = 64, 3, 5
    c, w = rng.uniform(-0.3, 0.6, (count, rows)), rng.normal(size=(count, rows, dim))
    x = np.concatenate([c, w.reshape(count, -1)], axis=1).astype(np.float32)
    spaces = cv.HalfSpaces(dim, rows)
    found = spaces.projection(x, rng.uniform(-3, 3, (count, dim)))
    least = np.array(
        [
            linprog(
                [0] * dim + [1],
                A_ub=np.c_[w[i], -np.ones(rows)],
                b_ub=-c[i],
                bounds=[(-1, 1)] * dim + [(None, None)],
            ).fun
            for i in range(count)
        ]
    )
    empty = np.asarray(found.outcome) == cv.Outcome.EMPTY
    worst = (c + np.einsum("nrd,nd->nr", w, np.asarray(found.action, float))).max(axis=1)
    assert empty.any()
    assert (~empty).any()
    clear = np.abs(least) > 1e-3
    np.testing.assert_array_equal(empty[clear], (least > 0)[clear])
    assert np.all(worst[~empty] <= 1e-6)
    assert np.all(worst[empty] <= least[empty] + 2e-3)


@each(["R+L2", "R+D", "H+O+S", "half-spaces", "sum", "user power"])
def test_derivative_matches_finite_differences(name):
    """In float64, with respect to the action and the context, wherever the projection is smooth."""
    case = CASES[name]
    x, a = case.draw(7, 16, 2.0)
    x, a = x[4:], a[4:]
    with jax.enable_x64(True):
        x, a = jnp.asarray(x, jnp.float64), jnp.asarray(a, jnp.float64)
        for argument in (0, 1):
            if (x, a)[argument].shape[-1] == 0:
                continue
            direction = jnp.asarray(np.random.default_rng(0).normal(size=(x, a)[argument].shape))

            def along(t, argument=argument, direction=direction):
                moved = [x, a]
                moved[argument] = moved[argument] + t * direction
                return case.constraint.project(*moved)

            step = 2e-4
            forward, backward = (along(step) - along(0.0)) / step, (along(0.0) - along(-step)) / step
            smooth = np.abs(forward - backward).max(axis=1) < 1e-2
            exact = np.asarray(jax.jvp(along, (0.0,), (1.0,))[1])
            assert smooth.mean() > 0.5
            error = np.abs(exact - (forward + backward) / 2).max(axis=1)[smooth]
            assert np.median(error) < 2e-3
            assert np.mean(error < 3e-2) > 0.8


@each(["R+L2", "R+D", "H+O+S", "R+T", "half-spaces", "sum", "user shell"])
def test_reverse_mode_gradients_are_finite(name):
    """One set per solver, on feasible, forbidden and degenerate actions."""
    case = CASES[name]
    x, a = case.draw(9, BATCH, 1.5)
    gradients = jax.grad(lambda x, a: jnp.sum(case.constraint.project(x, a) ** 2), argnums=(0, 1))(x, a)
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)
    inside = np.asarray(case.constraint.violation(x, a)) == 0
    np.testing.assert_allclose(gradients[1][inside], 2 * a[inside], rtol=1e-5)


@each(["H+O+S", "half-spaces"])
def test_jit_vmap_and_single_samples_agree(name):
    case = CASES[name]
    x, a = case.draw(13, 8)
    batch = case.constraint.project(x, a)
    np.testing.assert_allclose(jax.jit(case.constraint.project)(x, a), batch, atol=1e-4)
    np.testing.assert_allclose(jax.vmap(case.constraint.project)(x, a), batch, atol=1e-4)
    np.testing.assert_allclose(case.constraint.project(x[5], a[5]), batch[5], atol=1e-4)
    stacked = case.constraint.project(x.reshape(2, 4, -1) if x.size else None, a.reshape(2, 4, -1))
    np.testing.assert_allclose(stacked.reshape(8, -1), batch, atol=1e-4)


@optimised
@pytest.mark.thorough
def test_large_batches_are_solved_in_chunks():
    case = CASES["R+T"]
    x, a = case.draw(17, 300)
    whole = case.constraint.projection(x, a)
    np.testing.assert_allclose(whole.action[130:170], case.constraint.project(x[130:170], a[130:170]), atol=1e-3)
    assert whole.outcome.shape == (300,)


@optimised
def test_landing_is_feasible_in_float64_too():
    for name in ("W+O+S", "HC+O"):
        case = CASES[name]
        x, a = case.draw(21, 2048)
        y = np.asarray(case.constraint.project(x, a))
        with jax.enable_x64(True):
            assert np.all(np.asarray(case.constraint.violation(np.float64(x), np.float64(y))) == 0)


def test_a_function_that_returns_nan_never_leaks():
    spiky = cv.Constraint(lambda x, a: jnp.sqrt(0.25 - jnp.sum(a**2)) * -1 + 0.1, 2, convex=False)
    a = np.random.default_rng(0).uniform(-2, 2, (BATCH, 2)).astype(np.float32)
    found = spiky.projection(None, a)
    assert np.all(np.isfinite(found.action))
    assert np.all(np.asarray(spiky.contains(None, found.action)))


@optimised
def test_user_function_matches_the_built_in_set():
    x, a = CASES["user power"].draw(4, BATCH)
    mine, twin = USER_POWER.projection(x, a), cv.MaxPower(3, 10.0).projection(x, a)
    assert np.abs(np.asarray(mine.distance - twin.distance)).max() < 1e-3


@pytest.mark.thorough
@pytest.mark.parametrize("kink", ["absolute", "positive"])
def test_functions_with_many_kinks_are_solved_as_their_built_in_twins(kink):
    """Seventeen entries, where the interior-point method's usual pace loses its path."""
    dim = 17
    part = jnp.abs if kink == "absolute" else jax.nn.relu
    own = cv.Constraint(lambda x, a: jnp.sum(part(x * a)) / 20 - 1, dim, dim, convex=True)
    twin = (cv.Orthoplex if kink == "absolute" else cv.MaxPower)(dim, 20.0)
    rng = np.random.default_rng(0)
    x, a = (rng.uniform(-reach, reach, (64, dim)).astype(np.float32) for reach in (10, 3))
    near = own.projection(x, a)
    assert np.all(np.asarray(near.distance) <= np.asarray(twin.projection(x, a).distance) + 1e-3)
    assert np.mean(np.asarray(near.outcome) == cv.Outcome.EXACT) > 0.9
    direction = a / np.linalg.norm(a, axis=1, keepdims=True)
    far = own.maximisation(x, direction)
    short = np.sum(direction * (np.asarray(twin.maximise(x, direction)) - np.asarray(far.action)), axis=1)
    assert np.all(short <= 2e-3)
    assert np.all(short[np.asarray(far.outcome) == cv.Outcome.EXACT] <= 1.1e-3)
    np.testing.assert_array_equal(own.maximise(x, direction), far.action)


def test_a_plane_of_ones_own_is_not_called_empty():
    """An equality of margin 1e-6 in contexts that all leave actions."""

    def plane(x, a):
        return jnp.sum(x * a) - 0.3 * jnp.sum(x)

    thin = cv.Constraint(lambda x, a: jnp.sum(a**2) - 3, 4, 4, h=plane, convex=True, margin=1e-6)
    rng = np.random.default_rng(0)
    x, a = (rng.normal(size=(64, 4)).astype(np.float32) for _ in range(2))
    found = thin.projection(x, a)
    assert not np.any(np.asarray(found.outcome) == cv.Outcome.EMPTY)
    assert np.all(thin.contains(x, found.action))
