"""Shapes: each closed form agrees with the answer from the rows alone, and a new shape is one class."""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

import cvflows as cv
from cases import CASES, CONVEX, SETS, each
from cvflows.constraints.columns import ColumnSet, Solved
from cvflows.constraints.outcome import TOLERANCE
from cvflows.constraints.project import is_iterative
from cvflows.constraints.reference import ReferenceSolver
from cvflows.constraints.shapes.affine import Affine
from cvflows.constraints.shapes.base import Shape, Unknown, merge
from cvflows.constraints.shapes.radial import Radial
from cvflows.constraints.shapes.row import Row
from cvflows.constraints.shapes.separable import Separable, normalised
from cvflows.constraints.shapes.total import Total
from cvflows.maps.gauge import gauge
from cvflows.maps.inside import inner_point

BATCH = 64


class Disc(Shape):
    """‖a‖ ≤ radius ≤ 1: a shape that the package does not have. It answers two questions, the rows all others."""

    radius: float = eqx.field(static=True)

    @property
    def iterative(self):
        return False

    def project(self, here, a):
        size = jnp.sqrt(jnp.sum(a * a, axis=0, keepdims=True))
        y = a * jnp.minimum(1.0, self.radius / jnp.maximum(size, 1e-12))
        return Solved(y, jnp.zeros_like(a), jnp.full(a.shape[1], cv.Outcome.EXACT))

    def gauge(self, constraint, x, centre, v, far, *, at_zero):
        return [jnp.sqrt(jnp.sum(v * v)) / self.radius]


@dataclass(frozen=True)
class Round(cv.AbstractConstraint):
    """A ball that tells its shape as a `Disc`."""

    action_dim: int
    radius: float
    context_dim = 0
    convex = True

    def rows(self, x, a):
        return (jnp.sum(a * a) / self.radius**2 - 1)[None]

    def shape(self, x):
        return Disc(self.radius)


ROUND, BALL = Round(3, 0.6), cv.Ball(3, 0.6)


def actions(dim, reach=2.0):
    return np.random.default_rng(0).uniform(-reach, reach, (BATCH, dim)).astype(np.float32)


def test_a_new_shape_answers_what_it_knows():
    a = actions(3)
    found = ROUND.projection(None, a)
    nearest = a * np.minimum(1, 0.6 / np.linalg.norm(a, axis=1, keepdims=True))
    assert not is_iterative(ROUND)
    assert np.all(np.asarray(found.outcome) == cv.Outcome.EXACT)
    np.testing.assert_allclose(found.action, nearest, atol=1e-5)
    slope = jax.jacobian(lambda a: ROUND.project(None, a))(jnp.asarray(a[0]))
    outward = a[0] / np.linalg.norm(a[0])
    expected = 0.6 / np.linalg.norm(a[0]) * (np.eye(3) - np.outer(outward, outward))
    np.testing.assert_allclose(slope, expected, atol=1e-4)


@pytest.mark.thorough
def test_the_rows_answer_what_a_new_shape_does_not_know():
    a = actions(3)
    mine, best = (np.asarray(constraint.maximise(None, a)) for constraint in (ROUND, BALL))
    np.testing.assert_allclose(np.sum(mine * a, axis=1), np.sum(best * a, axis=1), rtol=1e-3)
    here = ColumnSet.at(ROUND, jnp.zeros((0, BATCH)))
    assert float(jnp.max(here.rows(here.shape.centre(here)))) < -0.5
    chosen = jnp.array([0.3, 0.0, 0.0])
    mine, best = (s.shape(jnp.zeros(0)).interval(s, jnp.zeros(0), chosen, 1) for s in (ROUND, BALL))
    np.testing.assert_allclose(mine, best, atol=1e-4)


def test_a_new_shape_in_intersections():
    a = actions(3)
    boxed, tilted = cv.Box(3, low=-0.2), cv.Constraint(lambda x, a: a[0] + a[1] - 0.1, 3, convex=True)
    for other in (cv.Ball(3, 0.4), tilted):
        assert type((ROUND & other).shape(jnp.zeros(0))) is Unknown
        np.testing.assert_allclose((ROUND & other).project(None, a), (BALL & other).project(None, a), atol=2e-3)
    assert type((ROUND & boxed).shape(jnp.zeros(0))) is Disc


def test_a_new_shape_has_a_gauge_map():
    map_ = cv.make_map("gauge", ROUND, cv.Uniform(0, -1, 1), splines=False)
    latents = jax.random.normal(jax.random.key(1), (BATCH, 3)) * 3
    found, _ = jax.vmap(lambda latent: map_.forward(latent, jnp.zeros(0)))(latents)
    assert map_.certified
    assert np.all(np.asarray(ROUND.contains(None, found)))
    assert float(jnp.max(jnp.linalg.norm(found, axis=1))) > 0.59


@partial(jax.jit, static_argnums=0)
def worst_rows(constraint, x, v):
    """The largest row or bound just before and just beyond c + v/γ(v)."""

    def at(x, v):
        c = inner_point(constraint, x)
        end = v / gauge(constraint, x, c, v, at_zero=False)
        low, high = constraint.bounds(x)
        points = [c + share * end for share in (0.98, 1.02)]
        return [jnp.max(jnp.concatenate([constraint.rows(x, a), low - a, a - high])) for a in points]

    return jax.vmap(at)(x, v)


@each(CONVEX)
@given(seed=st.integers(0, 2**31 - 1))
def test_gauge_ends_where_the_rows_do(name, seed):
    """Just before c + v/γ(v) the rows and the bounds hold, just beyond it one of them does not."""
    case = CASES[name]
    x, v = case.draw(seed, 64)
    v[~v.any(axis=1)] = 1.0  # zero is no direction
    before, beyond = (np.asarray(value) for value in worst_rows(case.constraint, x, v))
    assert np.all(before <= TOLERANCE)
    assert np.all(beyond > 0)


@each(SETS)
def test_every_shape_has_a_centre_inside(name):
    case = CASES[name]
    parts = case.constraint.alternatives or (case.constraint,)
    for part in parts:
        x = jnp.asarray(case.draw(2, 16)[0])
        here = ColumnSet.at(part, x.T)
        centre = here.shape.centre(here)
        assert float(jnp.max(here.rows(centre), initial=-1.0)) <= TOLERANCE
        assert bool(jnp.all((centre >= here.low) & (centre <= here.high)))


def test_shapes_of_intersections():
    row, none = normalised(quadratic=jnp.ones(2)), Separable((), centred=True)
    planes, shell, total = Affine(-jnp.ones(2), jnp.ones((2, 2))), Radial(0.2, 0.5), Total(jnp.ones(()), 1e-4)
    assert merge([none, none]) is none
    assert merge([none, row]) is row
    assert merge([planes, none]) is planes
    assert merge([shell]) is shell
    assert type(merge([none, shell])) is Unknown  # the radial solver knows the action box only
    assert merge([total, none]) is total
    assert merge([row, row]).rows == (*row.rows, *row.rows)
    assert merge([planes, planes, none]).offset.shape == (4,)
    for other in (planes, shell, total, Unknown()):
        assert type(merge([row, other])) is Unknown
        assert type(merge([other, row])) is Unknown
    assert type(merge([total, total])) is Unknown


@pytest.mark.thorough
def test_half_spaces_within_tighter_bounds():
    """The rows of the bounds are among the rows of the intersection, and not among the half-spaces of its shape."""
    both = cv.HalfSpaces(3, 2) & cv.Box(3, low=-0.5, high=(0.6, 1.0, 0.2))
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-0.5, -0.1, (BATCH, 2)), rng.normal(size=(BATCH, 6))], axis=1).astype(np.float32)
    a = actions(3)
    found, best = both.projection(x, a), both.maximise(x, a)
    solver = ReferenceSolver(both)
    assert np.all(np.asarray(both.contains(x, found.action)))
    for i in range(16):
        np.testing.assert_allclose(found.action[i], solver.project(x[i], a[i]), atol=1e-3)
        assert abs(a[i] @ (solver.maximise(x[i], a[i]) - np.asarray(best[i]))) < 1e-2


def test_sizes_within_a_shape_are_checked():
    with pytest.raises(TypeCheckError):
        Row(jnp.ones(()), quadratic=jnp.ones(2), linear=jnp.ones(3))
    with pytest.raises(TypeCheckError):
        Row(jnp.ones(4), quadratic=jnp.ones((2, 5)))
    with pytest.raises(TypeCheckError):
        Affine(jnp.ones(2), jnp.ones((3, 4)))
    with pytest.raises(TypeCheckError):
        Row(jnp.ones(4), quadratic=jnp.ones((2, 4))).usage(jnp.ones(3, int))
