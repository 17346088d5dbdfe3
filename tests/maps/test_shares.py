"""Shares of a total: the plain map is uniform on the slab, reaches its ends, and its tables are Irwin-Hall's."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cvflows.constraints.judge import judge_of
from cvflows.maps.kinds import kind_for, make_map
from cvflows.maps.shares import NODES, OCTAVES, is_shared, make_tables

SUMS = {
    "simplex": (cv.Simplex(3), cv.Uniform(0, -1, 1)),
    "total in the context": (cv.Sum(8, None, 0, 0.2), cv.Uniform(1, 0.1, 1.5)),
    "unequal bounds": (cv.Sum(4, None, -0.5, (1.0, 0.5, 0.8, 1.0)), cv.Uniform(1, -1.5, 3.0)),
    "tighter box": (cv.Sum(4, 1.0) & cv.Box(4, 0.1, (0.6, 0.3, 0.3, 0.3)), cv.Uniform(0, -1, 1)),
}

SIMPLEX = "simplex"
"""The sum that compiles fastest."""


@pytest.mark.optimised
@pytest.mark.parametrize(
    "name", [SIMPLEX, *(pytest.param(name, marks=pytest.mark.thorough) for name in SUMS if name != SIMPLEX)]
)
def test_without_splines_it_is_uniform_already(name):
    constraint, contexts = SUMS[name]
    quality = cv.measure(cv.make_map("auto", constraint, contexts, splines=False), contexts)
    assert quality.kl < 0.02
    assert quality.infeasible == 0


def test_auto_takes_it_for_totals_with_fixed_bounds_only():
    for constraint, _ in SUMS.values():
        assert is_shared(constraint)
        assert kind_for(constraint) == "share"
    assert not is_shared(cv.Ball(3, 0.5))
    with pytest.raises(ValueError, match="shares of a total"):
        cv.make_map("share", cv.Ball(3, 0.5), cv.Uniform(0, -1, 1))


def test_totals_near_both_ends():
    """Where the bounds leave next to nothing: feasible in float64, finite log-determinants, and back again."""
    constraint, contexts = SUMS["total in the context"]
    map_ = cv.make_map("share", constraint, contexts, splines=False)
    x = jnp.asarray([[1e-3], [1e-5], [0.0], [1.6], [1.6 - 1e-5], [1.59], [0.8]])
    latents = jnp.concatenate([jax.random.normal(jax.random.key(0), (60, 8)), jnp.full((1, 8), 3.0), -3 * jnp.eye(8)])
    judge = judge_of(constraint)
    for total in x:
        actions, log_dets = jax.jit(jax.vmap(map_.forward, (0, None)))(latents, total)
        assert np.isfinite(log_dets).all()
        context = [float(total[0])]
        assert max(max(judge.rows(context, action.tolist())) for action in actions) <= 1e-6
        back, _ = jax.jit(jax.vmap(map_.inverse, (0, None)))(actions, total)
        assert np.isfinite(back).all()


def test_tables_are_those_of_sums_of_uniforms():
    """P(U₁ + … + U_n ≤ s) = Σ_k (-1)^k C(n,k) max(s-k, 0)^n / n!, for entries of width one."""
    tables = make_tables((1.0,) * 5)
    shares = np.exp2(np.linspace(-OCTAVES - 1, -1, NODES))
    for index, n in ((3, 1), (2, 2), (0, 4)):
        s = shares * n
        terms = [(-1) ** k * math.comb(n, k) * np.maximum(s - k, 0) ** n for k in range(n + 1)]
        expected = np.sum(terms, axis=0) / math.factorial(n)
        np.testing.assert_allclose(np.exp(tables.log_below[index]), expected, rtol=2e-3)
        assert tables.rest[index] == n


@pytest.mark.thorough
def test_a_sum_near_the_edge_of_its_bounds_can_be_fitted():
    shares, contexts = cv.Sum(4, total=None, low=0.0, high=0.2), cv.Uniform(1, 0.05, 0.75)
    before = make_map("auto", shares, contexts, width=8, bins=4)
    fitted = cv.fit(before, contexts, cv.FitConfig(steps=150, batch=128))
    assert np.isfinite(fitted.losses).all()
    after = cv.measure(fitted.map, contexts, latents=4000, context_count=16)
    assert after.infeasible == 0
    assert 0 <= after.kl < 0.02  # it is uniform before the fit already: 0.003 is the noise of the estimate
