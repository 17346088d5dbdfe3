"""What certified means: proved from rows and bounds, probed in float64, refused where it fails."""

import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cases import CORNER, NO_CONTEXT, USER_POWER
from cvflows.errors import ArgumentError
from cvflows.maps.certify import find_failure, largest_rows
from cvflows.maps.charts import Slices
from cvflows.maps.inside import inner_point, is_centre_inside, is_centred
from cvflows.maps.intervals import is_sliceable
from cvflows.maps.kinds import kind_of, make_map
from cvflows.maps.splines import SplineMap
from cvflows.maps.symmetry import find_symmetry


def lobes(x, a):
    return a[0] ** 2 + a[1] ** 2 - 0.02 - 0.9 * a[0] ** 2 + 0.3 * jnp.cos(12 * a[1])


def test_an_origin_outside_the_bounds_is_no_centre():
    assert is_centred(cv.Ball(2, 0.6))
    assert not is_centred(CORNER)
    assert not is_sliceable(CORNER)
    assert is_sliceable(cv.Box(2, 0.4, 1.0))
    assert is_centred(cv.Box(2, 0.0, 1.0) & cv.Ball(2, 0.6))
    assert not is_centred(cv.Box(2, 0.0, 1.0) & cv.Ball(2, 0.6), 1e-3)
    assert is_centre_inside(cv.Tip(0.3))
    point = inner_point(CORNER, jnp.zeros(0))
    assert largest_rows(CORNER, jnp.zeros(0), point) < -0.01


@pytest.mark.thorough
def test_a_centre_that_is_only_usually_inside_is_searched_for():
    """The mean of the parts' centres lies outside the power limit in rare contexts: samples may miss them."""
    own = cv.Constraint(lambda x, a: jnp.sum(a) - 1.5, 2, convex=True)
    rarely = cv.Orthoplex(2, 3.0) & cv.Box(2, (-0.9, -0.26), (0.87, 0.1)) & own
    assert not is_centre_inside(rarely)
    contexts, far = cv.Normal(2, 0, 1), jnp.asarray([80.0, 120.0])
    map_ = make_map("ray", rarely, contexts)
    actions = jnp.stack([map_.forward(jnp.asarray(latent), far)[0] for latent in ((0.0, -3.0), (2.0, 1.0))])
    assert (largest_rows(rarely, far[None], actions) <= cv.TOLERANCE).all()


def test_a_function_that_does_not_see_the_context_at_its_centre_is_known_to_hold_it():
    """Σ max(x·a, 0) is 0 at a = 0 whatever x is: nothing needs to be searched for."""
    assert is_centre_inside(USER_POWER)
    assert not make_map("ray", USER_POWER, cv.Uniform(3, -10, 10)).anchored
    product = cv.Constraint(lambda x, a: x @ a - 1, 3, 3, convex=True)
    assert is_centre_inside(product)
    assert not is_centre_inside(cv.Constraint(lambda x, a: x @ (a + 0.1) - 1, 3, 3, convex=True))
    assert not is_centre_inside(cv.Constraint(lambda x, a: jnp.sum(a) - x[0], 3, 3, convex=True))
    assert is_centre_inside(cv.Constraint(lambda x, a: jnp.sum(a) - x[0], 3, 3, convex=True, anchor=(-0.5, 0, 0)))


@pytest.mark.thorough
def test_little_room_in_many_dimensions_is_found():
    """The deepest point of a box far from the origin within a ball, against a closed form by bisection."""
    dim, low, radius = 8, 0.2, 0.58  # the corner nearest to the origin is at 0.566
    shape = cv.Box(dim, low, 1.0) & cv.Ball(dim, radius)
    depth = max(t for t in np.linspace(0, 0.4, 40_001) if dim * (low + t) ** 2 / radius**2 - 1 <= -t)
    found = largest_rows(shape, jnp.zeros(0), inner_point(shape, jnp.zeros(0)))
    np.testing.assert_allclose(found, -depth, atol=1e-3)


def test_auto_certifies_what_lies_off_the_origin():
    map_ = make_map("auto", CORNER, NO_CONTEXT, splines=False)
    assert map_.certified
    assert kind_of(map_) == "gauge"
    quality = cv.measure(map_, NO_CONTEXT, latents=20_000, context_count=16)
    assert quality.infeasible == 0
    assert quality.recall > 0.97


def test_a_false_certificate_is_found():
    wrong = SplineMap(Slices(CORNER), find_symmetry(CORNER, NO_CONTEXT), (), splines=False)
    failure = find_failure(wrong, NO_CONTEXT)
    assert failure is not None
    assert failure.violation > 0.01
    assert failure.share > 0.3


def test_functions_that_close_over_numpy_arrays_are_judged_too():
    """Tracing leaves JAX with a float32 copy of such an array."""
    middle = np.asarray([0.1, 0.2], np.float64)
    own = cv.Constraint(lambda x, a: jnp.sum((a - middle) ** 2) - 0.2, 2, convex=True)
    actions = np.asarray([[0.1, 0.2], [0.9, 0.9]])
    np.testing.assert_allclose(largest_rows(own, np.zeros((2, 0)), actions), [-0.2, 0.93], atol=1e-6)


def test_a_kind_asked_for_by_name_is_refused_where_it_fails():
    """The function is called convex, and is not: rays leave it and come back."""
    lie = cv.Constraint(lobes, 2, convex=True, anchor=(0.9, 0.25))
    with pytest.raises(ArgumentError, match=r"`gauge` map can be certified for .* infeasible action at x=\(\)"):
        make_map("gauge", lie, NO_CONTEXT, splines=False)
    assert not make_map("auto", lie, NO_CONTEXT, width=4).certified
