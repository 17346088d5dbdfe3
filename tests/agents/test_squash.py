"""Squashing an action along a ray: it ends inside, with the density of its Jacobian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import cvflows as cv
from cases import CORNER, NO_CONTEXT
from cvflows.agents.squash import alpha, alpha_log_density, radial
from cvflows.maps.certify import largest_rows

CONVEX = {
    "disc": (cv.Ball(2, 0.5), np.zeros(0)),
    "power": (cv.Orthoplex(3, 2.0), np.array([3.0, -1.0, 2.0])),
    "spent power": (cv.MaxPower(3, 1.0), np.array([3.0, -1.0, 2.0])),
    "push": (cv.Tip(0.05), np.array([0.7])),
    "half-spaces": (cv.HalfSpaces(2, 2), np.array([-0.2, -0.3, 1.0, 0.5, -0.4, 1.0])),
}


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


@pytest.mark.parametrize("decode", [alpha, lambda *given: radial(*given)[0]], ids=["alpha", "radial"])
@pytest.mark.parametrize(
    ("constraint", "contexts"),
    [(CORNER, NO_CONTEXT), (cv.HalfSpaces(2, 1), cv.Product((cv.Uniform(1, -0.2, 0.4), cv.Uniform(2, 0.5, 1.0))))],
    ids=["corner", "half-space"],
)
def test_rays_of_the_decoders_start_inside(decode, constraint, contexts):
    x = contexts.sample(jax.random.key(0), 64)
    outputs = 3 * jax.random.normal(jax.random.key(1), (64, 2))
    actions = jax.jit(jax.vmap(lambda x, v: decode(constraint, x, v)))(x, outputs)
    assert np.all(largest_rows(constraint, x, actions) <= cv.TOLERANCE)
