"""Sets that an equality of the user's makes thin: never called empty, nearest, and allowed in float64."""

import warnings
from dataclasses import dataclass

import cvxpy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cvflows.constraints.guard import Guard
from cvflows.constraints.judge import judge_of

COUNT = 256
CURVED = {
    "none": (None, lambda y: []),
    "ball": (lambda x, a: jnp.sum(a**2) - 0.64, lambda y: [cvxpy.norm(y) <= 0.8]),
    "absolute": (lambda x, a: jnp.sum(jnp.abs(a)) / 2 - 1, lambda y: [cvxpy.norm1(y) <= 2]),
    "two": (
        lambda x, a: jnp.stack([jnp.sum(a**2) / 0.81 - 1, a[0] + a[1] - 0.9]),
        lambda y: [cvxpy.norm(y) <= 0.9, y[0] + y[1] <= 0.9],
    ),
}


@dataclass(frozen=True)
class Thin:
    """normal·a = offset, `equalities` of them, with normals of sizes 0.1 to 10, fixed or in the context."""

    dim: int
    inequality: str = "none"
    equalities: int = 1
    in_context: bool = False
    margin: float = 1e-6

    def make(self):
        """The constraint, contexts, actions, normals (count, equalities, dim) and offsets (count, equalities)."""
        rng = np.random.default_rng(self.dim)
        shape = (COUNT if self.in_context else 1, self.equalities, self.dim)
        normal = (rng.uniform(0.1, 10, shape) * rng.choice([-1, 1], shape)).astype(np.float32)
        inside = rng.uniform(-0.6, 0.6, (COUNT, self.dim))
        inside *= 0.6 / np.maximum(np.linalg.norm(inside, axis=1, keepdims=True), 0.6)
        offset = np.sum(normal * inside[:, None], axis=2).astype(np.float32)
        fixed = normal[0]

        def plane(x, a):
            own = x[self.equalities :].reshape(self.equalities, self.dim) if self.in_context else fixed
            return own @ a - x[: self.equalities]

        x = np.concatenate([offset, normal.reshape(COUNT, -1)], axis=1) if self.in_context else offset
        set_ = cv.Constraint(CURVED[self.inequality][0], self.dim, x.shape[1], h=plane, convex=True, margin=self.margin)
        a = rng.uniform(-1.5, 1.5, (COUNT, self.dim)).astype(np.float32)
        return set_, x, a, np.broadcast_to(normal, (COUNT, *shape[1:])), offset


SETS = {
    "a line": Thin(2),
    "a plane and a ball, in context": Thin(3, "ball", in_context=True),
    "a wider margin": Thin(3, "absolute", margin=1e-5),
    "two equalities": Thin(5, "ball", equalities=2),
    "kinks": Thin(4, "absolute"),
    "six entries in context": Thin(6, "ball", in_context=True),
    "seven entries, two rows": Thin(7, "two"),
    "eight entries": Thin(8),
    "eight entries, margin 1e-4": Thin(8, "two", margin=1e-4),
}
QUICK = ("a line", "a plane and a ball, in context")
each_set = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.thorough]) for name in SETS]
)


@each_set
def test_no_thin_set_is_called_empty_and_the_nearest_action_is_found(name):
    case = SETS[name]
    set_, x, a, normal, offset = case.make()
    found = set_.projection(x, a)
    assert not np.any(np.asarray(found.outcome) == cv.Outcome.EMPTY)
    y = np.asarray(found.action, np.float64)
    assert judge_of(set_).many(x.astype(float), y).max() <= 1e-6
    np.testing.assert_array_equal(set_.projection(x, found.action).action, found.action)
    for i in range(0, COUNT, 16):
        best = cvxpy.Variable(case.dim)
        off = normal[i].astype(float) @ best - offset[i].astype(float)
        limits = [off <= case.margin, off >= -case.margin, best <= 1, best >= -1, *CURVED[case.inequality][1](best)]
        accuracy = {f"tol_{kind}": 1e-9 for kind in ("gap_abs", "gap_rel", "feas")}
        problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(best - a[i].astype(float))), limits)
        with warnings.catch_warnings():  # where it cannot reach that accuracy, it says so, and has come close
            warnings.simplefilter("ignore", UserWarning)
            problem.solve("CLARABEL", **accuracy)
        assert np.linalg.norm(y[i] - a[i]) < np.linalg.norm(best.value - a[i]) + 1e-4
        assert np.linalg.norm(y[i] - best.value) < (1e-4 if problem.status == "optimal" else 1e-3)


def test_furthest_action_of_a_thin_set():
    set_, x, a, normal, offset = SETS["a line"].make()
    found = set_.maximisation(x, a)
    assert np.all(np.asarray(found.outcome) == cv.Outcome.EXACT)
    along = np.stack([-normal[:, 0, 1], normal[:, 0, 0]], axis=1).astype(float)  # the line, cut by the box
    start = offset * normal[:, 0].astype(float) / np.sum(normal[:, 0].astype(float) ** 2, axis=1, keepdims=True)
    ends = np.sort([(side - start) / along for side in (-1, 1)], axis=0)
    reach = np.where(np.sum(along * a, axis=1) > 0, ends[1].min(axis=1), ends[0].max(axis=1))
    best = np.sum((start + reach[:, None] * along) * a, axis=1)
    np.testing.assert_allclose(np.sum(np.asarray(found.action, float) * a, axis=1), best, atol=1e-4)


def test_guard_executes_on_contexts_that_float32_cannot_hold():
    set_, x, a, _, _ = SETS["a plane and a ball, in context"].make()
    wide = x * (1 + 6e-8 * np.random.default_rng(0).uniform(-1, 1, x.shape))
    verdicts = Guard(set_).batch(wide, a)
    assert max(verdict.executed_violation for verdict in verdicts) <= 1e-6
    assert {verdict.outcome for verdict in verdicts} == {cv.Outcome.EXACT}


@pytest.mark.thorough
def test_derivative_on_a_thin_set():
    """The projection on a plane has the derivative I - nnᵀ/‖n‖² where no bound is active."""
    n = np.asarray([3.0, -1.0, 2.0], np.float32)
    plane = cv.Constraint(None, 3, 1, h=lambda x, a: n @ a - x[0], convex=True, margin=1e-6)
    a = jnp.asarray([0.3, -0.2, 0.1])
    for mode in (jax.jacrev, jax.jacfwd):
        slope = mode(lambda a: plane.project(jnp.asarray([0.5]), a))(a)
        np.testing.assert_allclose(slope, np.eye(3) - np.outer(n, n) / (n @ n), atol=1e-3)


@pytest.mark.thorough
def test_vmap_of_a_thin_set_stays_in_double_precision():
    set_, x, a, _, _ = SETS["a line"].make()
    one_by_one = jax.vmap(set_.project)(x[:8], a[:8])
    np.testing.assert_array_equal(one_by_one, set_.project(x[:8], a[:8]))
    assert judge_of(set_).many(x[:8].astype(float), np.asarray(one_by_one, float)).max() <= 1e-6


def test_functions_that_jax_cannot_lower_in_both_precisions_stay_in_single():
    def largest(x, a):
        return (a * a)[jnp.argmax(a)] - 0.5

    mixed = cv.Constraint(largest, 3, 1, h=lambda x, a: jnp.sum(a) - x[0], convex=True, margin=1e-3)
    found = mixed.projection(np.full((4, 1), 0.3), np.random.default_rng(0).uniform(-1, 1, (4, 3)))
    assert np.all(np.isfinite(found.action))
