"""The contract of every map: round trip, log-determinant, gradients; and what it promises of its actions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cases import MAPS, each
from cvflows.errors import ArgumentError, UnknownNameError
from cvflows.maps.base import draw_latents, log_base
from cvflows.maps.fit import FitConfig, fit
from cvflows.maps.polar import Polar
from cvflows.maps.quality import measure
from cvflows.maps.spline import make_spline, parameter_count
from cvflows.maps.triangular import box_spline, slice_map

COUNT = 64


def samples(case, seed=0):
    x = case.contexts.sample(jax.random.key(seed), COUNT)
    return 0.8 * draw_latents(case.map.base, jax.random.key(seed + 1), COUNT, case.map.constraint.action_dim), x


@each(MAPS)
def test_round_trip_and_log_determinant(name):
    case = MAPS[name]
    latents, x = samples(case)
    actions, log_det = jax.jit(jax.vmap(case.map.forward))(latents, x)
    back, log_det_back = jax.jit(jax.vmap(case.map.inverse))(actions, x)
    np.testing.assert_allclose(back, latents, atol=5e-3)
    np.testing.assert_allclose(log_det + log_det_back, 0, atol=2e-2)
    jacobian = jax.jit(jax.vmap(jax.jacobian(lambda latent, x: case.map.forward(latent, x)[0])))(latents, x)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(np.asarray(jacobian, float))[1], atol=2e-3, rtol=1e-3)


@each(MAPS)
def test_gradient_reaches_every_parameter(name):
    case = MAPS[name]
    latents, x = samples(case)

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(map_):
        actions, log_dets = jax.vmap(map_.forward)(latents, x)
        return jnp.sum(actions**2) + jnp.sum(log_dets)

    for leaf in jax.tree.leaves(eqx.filter(gradient(case.map), eqx.is_inexact_array)):
        assert np.all(np.isfinite(leaf))
        assert np.any(leaf != 0)


@each([name for name, case in MAPS.items() if case.certified])
def test_certified_maps_never_violate_and_reach_everything(name):
    case = MAPS[name]
    quality = measure(case.map, case.contexts, latents=20_000, context_count=64)
    assert quality.infeasible == 0
    assert quality.mean_violation == 0
    assert quality.recall > (0.97 if case.map.base == "normal" else 0.9999)


def test_zeros_make_the_identity_spline():
    points = jnp.linspace(-1, 1, 101)
    identity = make_spline(jnp.zeros(parameter_count(8)), 8)
    np.testing.assert_allclose(jax.vmap(identity.transform)(points), points, atol=1e-5)


def test_polar_is_exactly_uniform():
    task = cv.task("R+D")
    ring = Polar(task.constraint)
    latents = draw_latents("normal", jax.random.key(0), 1000, 2)
    density = jax.vmap(lambda z: log_base("normal", z) - ring.forward(z, jnp.zeros(0))[1])(latents)
    np.testing.assert_allclose(density, -np.log(np.pi * 0.01), atol=1e-3)


def test_fit_learns_a_set_from_its_violation_alone():
    """A disc that fills 4 % of the box, in seconds; the same seed gives the same map."""
    task = cv.task("R+L2")
    config = FitConfig(steps=400, batch=256, penalty=300.0)
    first = fit(box_spline(task.constraint), task.contexts, config)
    quality = measure(first.map, task.contexts, latents=20_000, context_count=16)
    assert quality.accuracy > 0.97
    assert quality.recall > 0.9
    assert quality.kl < 0.1
    again = fit(box_spline(task.constraint), task.contexts, config)
    np.testing.assert_array_equal(first.losses, again.losses)
    assert len(first.losses) == 400


def test_entropy_alone_makes_a_slice_uniform():
    task = cv.task("H+M")
    plain = slice_map(task.constraint, splines=False)
    before = measure(plain, task.contexts, latents=20_000, context_count=64)
    fitted = fit(slice_map(task.constraint, contexts=task.contexts), task.contexts, FitConfig(steps=400, batch=256))
    after = measure(fitted.map, task.contexts, latents=20_000, context_count=64)
    assert after.infeasible == 0
    assert after.kl < before.kl
    assert after.kl < 0.05


def test_bad_arguments_are_named():
    task = cv.task("H+M")
    broken = cv.Constraint(lambda x, a: jnp.log(jnp.sum(a)) - 1, 2)
    for argument, call in {
        "contexts": lambda: fit(slice_map(task.constraint, splines=False), cv.Uniform(2, -1, 1)),
        "constraint": lambda: Polar(task.constraint),
        "anneal": lambda: FitConfig(anneal=2.0),
        "steps": lambda: FitConfig(steps=0),
        "penalty": lambda: FitConfig(penalty=-1.0),
    }.items():
        with pytest.raises(ArgumentError, match=f"^`{argument}`: expected .*, got "):
            call()
    with pytest.raises(UnknownNameError, match="did you mean 'normal'"):
        slice_map(task.constraint, base="norm", splines=False)
    with pytest.raises(ArgumentError, match=r"NaN in the loss"):
        fit(box_spline(broken), cv.Uniform(0, -1, 1), FitConfig(steps=100, batch=16))
