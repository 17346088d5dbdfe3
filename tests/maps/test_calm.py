"""Calm: how far a map's actions move with the context, by closed forms; and what makes a map calmer."""

import json
from dataclasses import asdict

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks import calm as benchmark
from benchmarks import map_quality

import cvflows as cv
from cases import CASES, map_case
from cvflows.cli import main
from cvflows.constraints.base import all_rows
from cvflows.errors import ArgumentError
from cvflows.maps.base import ActionMap, draw_latents, to_box
from cvflows.maps.calm import context_slopes, measure_calm
from cvflows.maps.fit import FitConfig, fit, fit_to_samples, reverse_kl
from cvflows.maps.gauge import gauge
from cvflows.maps.kinds import make_map
from cvflows.maps.quality import measure
from cvflows.maps.store import load_map, save_map

POWER = CASES["H+M"]
INTERVAL = cv.Constraint(lambda x, a: jnp.abs(a) - x, 1, 1, convex=True, anchor=(0.0,))
SIZES = cv.Uniform(1, 0.2, 1.0)


class Toy(ActionMap):
    """A map by one function, without an inverse."""

    constraint: cv.AbstractConstraint = eqx.field(static=True)
    function: object = eqx.field(static=True)
    base: str = eqx.field(static=True)

    def __init__(self, constraint, function):
        self.constraint, self.function, self.base = constraint, function, "normal"

    @property
    def certified(self):
        return True

    def forward(self, latent, context):
        return self.function(self.constraint, to_box(self.base, latent)[0], context), jnp.zeros(())

    def inverse(self, action, context):
        raise NotImplementedError

    def settings(self):
        return {}


def alpha_projection(constraint, u, x):
    """To the boundary along the ray, where the action is not allowed."""
    return u / jnp.maximum(gauge(constraint, x, jnp.zeros_like(u), u, at_zero=True), 1.0)


def test_leaving_allowed_actions_alone_is_calm():
    """Exactly for α-projection, nearly for a ray map of little softness; not for one that fills every set alike."""
    projection = measure_calm(Toy(POWER.constraint, alpha_projection), POWER.contexts)
    assert projection.compared > 10_000
    assert projection.calm == pytest.approx(0, abs=1e-6)
    ray = measure_calm(make_map("ray", POWER.constraint, POWER.contexts, softness=0.01), POWER.contexts)
    full = measure_calm(make_map("ray", POWER.constraint, POWER.contexts, softness=1.0), POWER.contexts)
    assert ray.calm < 1e-4 < 3e-3 < full.calm


def test_an_interval_that_is_scaled_by_its_context():
    """a = b·x for |a| ≤ x: ∂a/∂x = b, and both actions are allowed in both contexts where |b|·max(x,x') ≤ min(x,x')."""
    map_ = make_map("ray", INTERVAL, SIZES, base="uniform", softness=1.0, profile="linear")
    found = measure_calm(map_, SIZES)
    b, x, other = np.random.default_rng(0).uniform([0, 0.2, 0.2], 1, (10**6, 3)).T
    allowed = b * np.maximum(x, other) <= np.minimum(x, other)
    assert found.compared / 16_384 == pytest.approx(allowed.mean(), abs=0.015)
    assert found.calm == pytest.approx((b * np.abs(x - other))[allowed].mean(), rel=0.03)
    assert found.lipschitz == pytest.approx(0.8 / np.sqrt(12), rel=0.02)  # the standard deviation of U[0.2, 1]


def test_entries_are_averaged_and_contexts_counted_in_standard_deviations():
    """a = (x₁ + 2·x₂)·(1,1): the same whatever the units of x, for one entry or two."""

    def shift(constraint, u, x):
        return 0.01 * jnp.broadcast_to(x[0] + 2 * x[1] * jnp.ones_like(u), u.shape)

    for dim, scale in ((1, 1.0), (2, 1.0), (2, 10.0)):
        contexts = cv.Product((cv.Uniform(1, -scale, scale), cv.Uniform(1, -1.0, 1.0)))
        box = cv.Box(dim).reads((), of=2)
        found = measure_calm(Toy(box, lambda c, u, x, s=scale: shift(c, u, x / jnp.asarray([s, 1.0]))), contexts)
        assert found.lipschitz == pytest.approx(0.01 * np.sqrt(5) / np.sqrt(3), rel=0.02)
        assert found.compared == 16_384


@pytest.mark.parametrize("name", ["ray H+M, linear", pytest.param("gauge R+T", marks=pytest.mark.thorough)])
def test_slopes_are_finite_differences(name):
    case = map_case(name)
    x = case.contexts.sample(jax.random.key(0), 256)
    latents = jnp.clip(draw_latents(case.map.base, jax.random.key(1), 256, case.map.constraint.action_dim), -3, 3)
    sizes = np.std(np.asarray(x), axis=0)
    act = eqx.filter_jit(jax.vmap(lambda latent, x: case.map.forward(latent, x)[0]))
    steps = 1e-3 * np.diag(sizes)[:, None]
    moves = [np.asarray(act(latents, np.asarray(x) + step) - act(latents, np.asarray(x) - step)) for step in steps]
    slopes = np.asarray(context_slopes(case.map, latents, x)) * sizes
    errors = np.abs(slopes - np.stack(moves, axis=-1) / 2e-3).max(axis=(1, 2))
    assert np.quantile(errors, 0.95) < 2e-3  # the others lie at a kink


@pytest.mark.thorough
def test_what_cannot_be_measured_is_none_and_json():
    """Sets without a common action; a slope that is not finite; no contexts, where nothing moves."""
    total = CASES["sum"]
    found = measure_calm(make_map("share", total.constraint, total.contexts, splines=False), total.contexts)
    assert (found.calm, found.compared) == (None, 0)
    steep = Toy(INTERVAL, lambda c, u, x: u * jnp.sqrt(x))
    assert measure_calm(steep, cv.Uniform(1, 0.2, 1.0)).lipschitz is not None

    class Zeros:
        size = 1

        def sample(self, key, count):
            return jnp.zeros((count, 1))

    assert measure_calm(steep, Zeros()).lipschitz is None
    disc = cv.task("R+L2")
    quality = measure(make_map("orb", disc.constraint, disc.contexts), disc.contexts, latents=4000, context_count=4)
    assert (quality.calm, quality.lipschitz, quality.compared) == (0, 0, 0)
    json.dumps([found._asdict(), asdict(quality)], allow_nan=False)


def test_latents_are_mirrored_with_the_set(tmp_path):
    """Without it, actions change their sign with the speed; the density at an action is the same."""
    plain, calm = (
        make_map("slice", POWER.constraint, POWER.contexts, splines=False, mirrored=on) for on in (False, True)
    )
    latent, speed = jnp.asarray([0.5, -0.2, 0.1]), jnp.asarray([3.0, 2.0, -1.0])
    speeds = jnp.stack([speed.at[0].set(1e-3), speed.at[0].set(-1e-3)])
    flipped, kept = (jax.vmap(lambda x, m=map_: m.forward(latent, x)[0])(speeds) for map_ in (plain, calm))
    np.testing.assert_allclose(flipped[0][0], -flipped[1][0], atol=1e-3)
    np.testing.assert_allclose(kept[0], kept[1], atol=1e-3)
    before, after = (measure_calm(map_, POWER.contexts) for map_ in (plain, calm))
    assert after.calm < before.calm / 10
    one, other = (jax.vmap(lambda x, m=map_: m.inverse(kept[0], x))(speeds) for map_ in (plain, calm))
    np.testing.assert_allclose(one[0][1], other[0][1] * jnp.asarray([-1, 1, -1]), atol=1e-5)
    np.testing.assert_allclose(one[1], other[1], atol=1e-5)
    assert "mirrored" not in plain.settings()
    assert load_map(save_map(calm, tmp_path)) == calm


@pytest.mark.thorough
def test_parts_of_a_union_are_mirrored():
    discs = CASES["two discs"]
    assert not any(part.mirrored for part in make_map("auto", discs.constraint, discs.contexts, splines=False).parts)
    calm = make_map("auto", discs.constraint, discs.contexts, splines=False, mirrored=True)
    assert all(part.mirrored for part in calm.parts)


def test_transport_is_added_to_the_reverse_kl():
    """J + β·E‖a - u‖²; β = 0 leaves J as it is, bit by bit."""
    map_ = make_map("boxspline", POWER.constraint, POWER.contexts, splines=False, mirrored=True)
    weight = jnp.asarray(3.0)

    @jax.jit
    def paper(key):
        keys = jax.random.split(key)
        x, latents = POWER.contexts.sample(keys[0], 64), draw_latents("normal", keys[1], 64, 3)
        actions, log_dets = jax.vmap(map_.forward)(latents, x)
        violation = jax.vmap(lambda x, a: jnp.sum(jnp.maximum(all_rows(POWER.constraint, x, a), 0)))(x, actions)
        moved = jnp.sum((actions - jax.lax.erf(latents / np.sqrt(2))) ** 2, axis=1)
        return jnp.mean(weight * violation - log_dets), jnp.mean(moved)

    loss, moved = paper(jax.random.key(5))
    for beta in (0.0, 0.5):
        config = FitConfig(batch=64, transport=beta)
        found = jax.jit(lambda key, c=config: reverse_kl(map_, POWER.contexts, key, c, weight))(jax.random.key(5))
        np.testing.assert_allclose(found, loss + beta * moved, rtol=1e-5 if beta else 0)


@pytest.mark.thorough
def test_transport_makes_a_learned_map_calmer():
    contexts = cv.Uniform(2, -10, 10)
    map_ = make_map("boxspline", cv.MaxPower(2, 5.0), contexts, width=8, bins=4, mirrored=True)
    plain, calm = (
        measure_calm(fit(map_, contexts, FitConfig(steps=150, batch=128, transport=beta)).map, contexts)
        for beta in (0.0, 10.0)
    )
    assert calm.calm < 0.8 * plain.calm


def test_bad_weights_are_named(capsys):
    for value in (-1.0, float("nan"), 1e9):
        with pytest.raises(ArgumentError, match=r"^`transport`: expected a number in \[0, 10000\], got "):
            FitConfig(transport=value)
    pair = jnp.zeros((1, 3)), jnp.zeros((1, 3))
    with pytest.raises(ArgumentError, match=r"^`transport`: expected 0 for a fit to samples"):
        fit_to_samples(map_case("ray H+M, linear").map, POWER.contexts, pair, FitConfig(transport=1.0))
    assert main(["fit", "R+L2", "--transport", "-1"]) == 2
    assert "`transport`: expected" in capsys.readouterr().err


@pytest.mark.thorough
def test_fit_with_transport_from_the_command_line(tmp_path, capsys):
    """Latents are mirrored, and the weight is kept with the map."""
    words = ["fit", "R+M", "--kind", "slice", "--steps", "20", "--transport", "0.5", "--out", str(tmp_path / "map")]
    assert main([*words, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["transport"] == 0.5
    assert figures["calm"] > 0
    assert figures["lipschitz"] > 0
    assert load_map(tmp_path / "map").mirrored
    assert json.loads((tmp_path / "map" / "map.json").read_text())["about"]["transport"] == 0.5


def test_rows_from_before_calm_are_read_and_still_count():
    new = {"task": "H+M", "map": "slice", "accuracy": 1.0, "recall": 1.0, "f1": 1.0, "kl": 0.0, "mean_violation": 0.0}
    new |= {"gradient_steps": 1, "seconds": 1.0, "calm": 0.0312, "lipschitz": None}
    old = {name: value for name, value in new.items() if name not in ("calm", "lipschitz")} | {"map": "gauge"}
    lines = map_quality.table({"fits": [new, old]}).splitlines()[2:]
    assert [line.split(" | ")[8:10] for line in lines] == [["0.031", "–"], ["–", "–"]]
    assert "transport" not in map_quality.fit_config("H+M", "slice", 0, {})
    assert map_quality.fit_config("H+M", "slice", 0, {"transport": 2.0})["transport"] == 2.0


def test_the_benchmark_of_calm_lists_its_maps_and_bars():
    measured = {"accuracy": 1.0, "recall": 0.9, "kl": 0.1, "compared": 1234, "lipschitz": None, "seconds": 1.0}
    maps = [
        {"task": task, "map": kind, "transport": beta, "options": options, "calm": 0.1 / (1 + beta), **measured}
        for task, kind, beta, options in benchmark.jobs(quick=False)
    ]
    assert len({str(job) for job in benchmark.jobs(quick=False)}) == len(maps) == 36
    bars = {bar.name: bar for bar in benchmark.bars(maps)}
    assert not bars["W+M ray calm"].ok
    assert bars["cross calm with transport, over without"].value == pytest.approx(1 / 11)
    text = benchmark.table({"maps": maps})
    assert "| W+M | slice, mirrored, β = 10 | 100.00% | 90.0% | 0.100 | 0.00909 | 1,234 | – | 1.0 |" in text
    constraint, contexts = benchmark.find_set(benchmark.CROSS)
    assert contexts.size == constraint.context_dim
    np.testing.assert_allclose(constraint.rows(jnp.asarray([0.5, 1.0, 1.0]), jnp.asarray([1.0, 0.5, 0.0])), [0, -1, -1])
