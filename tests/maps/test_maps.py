"""The contract of every map: round trip, log-determinant, gradients, storage; and what it promises of its actions."""

import dataclasses
import json
import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cases import ACTION_TASKS, CASES, MAPS, NO_CONTEXT, TWINS, each, map_case
from cvflows.cli import main
from cvflows.errors import ArgumentError, CVFlowsError, UnknownNameError
from cvflows.maps.base import draw_latents, log_base
from cvflows.maps.certify import largest_rows, try_latents
from cvflows.maps.charts import Extents, Gauge, Slices
from cvflows.maps.coupling import RealNVP
from cvflows.maps.gauge import gauge
from cvflows.maps.kinds import KINDS, kind_for, kind_of, make_map, parse_kind
from cvflows.maps.quality import measure
from cvflows.maps.registry import kinds_for
from cvflows.maps.spherical import Shells, Surroundings
from cvflows.maps.splines import make_spline, parameter_count
from cvflows.maps.store import load_map, save_map
from cvflows.maps.symmetry import find_symmetry

COUNT = 64
IMPLEMENTATIONS = (
    *("slice H+M", "gauge R+T", "shell H+D", "box spline H+D", "box spline R+L2, uniform base"),
    *("coupling H+M", "RealNVP R+M"),
)


@each(MAPS)
def test_round_trip_log_determinant_and_storage(name, tmp_path):
    """One compilation serves all: forward with its Jacobian, and inverse."""
    case = map_case(name)
    x = case.contexts.sample(jax.random.key(0), COUNT)
    latents = 0.8 * draw_latents(case.map.base, jax.random.key(1), COUNT, case.map.constraint.action_dim)

    @eqx.filter_jit
    @eqx.filter_vmap(in_axes=(None, 0, 0))
    def there_and_back(map_, latent, x):
        action, log_det = map_.forward(latent, x)
        jacobian = jax.jacfwd(lambda z: map_.forward(z, x)[0])(latent)
        return action, log_det, jacobian, map_.inverse(action, x)

    actions, log_det, jacobian, (back, log_det_back) = there_and_back(case.map, latents, x)
    thin = name == "slice of a simplex"  # its last entry has an interval of width 2e-4
    np.testing.assert_allclose(back, latents, atol=0.1 if thin else 5e-3)
    np.testing.assert_allclose(log_det + log_det_back, 0, atol=0.1 if thin else 2e-2)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(np.asarray(jacobian, float))[1], atol=2e-3, rtol=1e-3)
    if case.certified:
        assert np.all(case.map.constraint.contains(x, actions))
    given = case.map.constraint if "function" in name or "learned" in name else None  # it is compared by identity
    loaded = load_map(save_map(case.map, tmp_path), constraint=given)
    assert jax.tree.structure(loaded) == jax.tree.structure(case.map)
    np.testing.assert_array_equal(there_and_back(loaded, latents, x)[0], actions)


@each(IMPLEMENTATIONS)
def test_gradient_reaches_every_parameter(name):
    case = map_case(name)
    x = case.contexts.sample(jax.random.key(0), COUNT)
    latents = 0.8 * draw_latents(case.map.base, jax.random.key(1), COUNT, case.map.constraint.action_dim)

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(map_):
        actions, log_dets = jax.vmap(map_.forward)(latents, x)
        return jnp.sum(actions**2) + jnp.sum(log_dets)

    leaves = jax.tree.leaves(eqx.filter(gradient(case.map), eqx.is_inexact_array))
    assert leaves
    for leaf in leaves:
        assert np.all(np.isfinite(leaf))
        assert np.any(leaf != 0)


@pytest.mark.optimised
@each(["slice H+O+S, plain", "slice R+L2, uniform base", "slice of a simplex", "gauge of a function", "shell H+D"])
def test_certified_maps_never_violate_and_reach_everything(name):
    case = map_case(name)
    quality = measure(case.map, case.contexts, latents=20_000, context_count=64)
    assert quality.infeasible == 0
    assert quality.mean_violation < 1e-7
    assert quality.recall > (0.97 if case.map.base == "normal" else 0.9999)


STAR_SHAPED = [name for name, task in ACTION_TASKS.items() if task.constraint.convex]


@pytest.mark.optimised
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough if name in TWINS else ()) for name in STAR_SHAPED]
)
def test_rays_of_the_paper_s_sets_end_inside(name):
    """Three times 9,000 latents, a third of them corners and edges at ±3, judged in float64 from the rows."""
    task = ACTION_TASKS[name]
    map_ = make_map("ray", task.constraint, task.contexts)
    for seed in (11, 12, 13):  # the code that `make_map` compiled to probe the map, at other latents and contexts
        tried = try_latents(map_, task.contexts, seed=seed)
        worst = largest_rows(task.constraint, tried.contexts[:, None], tried.actions)
        assert worst.size > 9000
        assert (worst > 1e-6).sum() == 0


@pytest.fixture
def cube(tmp_path, monkeypatch):
    """The kind of map that the docs show, in a file that the environment names."""
    page = (Path(__file__).parents[2] / "docs" / "extend" / "map.md").read_text()
    monkeypatch.chdir(tmp_path)
    Path("cube.py").write_text(re.search(r"`cube.py`:\n\n```python\n(.*?)```", page, re.DOTALL)[1])
    monkeypatch.setenv("CVFLOWS_PLUGINS", "cube.py")
    KINDS.pop("cube", None)
    yield
    KINDS.pop("cube", None)


def test_a_kind_in_one_file_is_known_everywhere(cube, capsys):
    assert main(["fit", "R+L2", "--kind", "cube", "--steps", "5", "--out", "fitted", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["map"], figures["infeasible"], figures["gradient_steps"]) == ("cube", 0, 0)
    ball = cv.task("R+L2").constraint
    assert main(["fit", "R+D", "--kind", "cube"]) == 2
    assert "`constraint`: expected a ball, got Shell" in capsys.readouterr().err
    map_ = cv.make_map("Cube", ball, NO_CONTEXT, share=0.5)
    again = cv.load_map(cv.save_map(map_, "saved"))
    assert again == map_
    assert kind_of(cv.load_map("fitted")) == kind_of(again) == "cube"
    action, _ = again.forward(jnp.asarray([3.0, -3.0]), jnp.zeros(0))
    np.testing.assert_allclose(np.abs(action), 0.5 * ball.radius / np.sqrt(2) * 0.9973, rtol=1e-4)
    assert kind_for(ball) == "orb"
    KINDS["cube"] = dataclasses.replace(KINDS["cube"], rank=1)
    assert kind_for(ball) == "cube"
    assert not cv.make_map("auto", CASES["user shell"].constraint, NO_CONTEXT, width=4).certified


def test_kinds_that_would_be_mistaken_for_others_are_refused(cube):
    assert cv.add_map(KINDS["ray"]) is KINDS["ray"]
    for name in ("Ray", "auto", "gauge"):
        with pytest.raises(ArgumentError, match=r"^`name`: expected one that no other kind of map has"):
            cv.add_map(dataclasses.replace(KINDS["ray"], name=name))
    twin = type("RayMap", (type(map_case("ray R+L2").map),), {})
    with pytest.raises(ArgumentError, match=r"^`map`: expected a class whose name"):
        cv.add_map(dataclasses.replace(KINDS["ray"], name="twin", map=twin))


def test_a_ray_map_leaves_alone_what_is_well_inside():
    """a = b = erf(z/√2) where γ_C(b) ≤ 1 - ε; at the edge of the base box, γ_C(a) is 1; by hand for a disc."""
    disc = cv.Ball(2, 0.5)
    for profile in ("linear", "smooth"):
        map_ = make_map("ray", disc, NO_CONTEXT, softness=0.4, profile=profile, base="uniform")
        push = jax.vmap(lambda b, f=map_.forward: f(b, jnp.zeros(0)))
        inside = jnp.asarray([[0.1, 0.2], [-0.29, 0.0], [0.0, 0.0]])
        actions, log_dets = push(inside)
        np.testing.assert_array_equal(actions, inside)
        np.testing.assert_array_equal(log_dets, 0)
        edge, _ = push(jnp.asarray([[1.0, 0.3], [-1.0, -1.0], [0.2, 1.0]]))
        np.testing.assert_allclose(np.linalg.norm(edge, axis=1), 0.5, atol=1e-5)
        between, _ = push(jnp.asarray([[0.6, 0.0]]))  # t = 1.2, T = 2
        u, span = 1.2 - 0.6, 2 - 0.6
        height = 0.4 * u / span if profile == "linear" else u / (1 + (1 / 0.4 - 1 / span) * u)
        np.testing.assert_allclose(between, [[0.5 * (0.6 + height), 0]], atol=1e-5)


def test_a_ray_map_is_fitted_and_trained_with_from_the_command_line(tmp_path, monkeypatch, capsys):
    """Nothing is fitted; it is measured, saved and drawn, and an agent acts through it."""
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "R+L2", "--kind", "ray", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["map"], figures["gradient_steps"], figures["infeasible"]) == ("ray", 0, 0)
    assert figures["recall"] > 0.99
    assert Path(figures["picture"]).exists()
    small = ["--steps", "200", "--num-envs", "1", "--final-episodes", "1", "--set", "rollout=50", "--set", "hidden=8,8"]
    words = ["train", "R+L2", "--method", "PPO+CVFlow", "--kind", "ray", *small, "--out", "run", "--json"]
    assert main(words) == 0
    run = json.loads(capsys.readouterr().out)
    assert (run["training"]["cv_count"], run["training"]["projections"]) == (0, 0)
    assert kind_of(cv.load_map("run/map")) == "ray"


def test_a_ray_map_is_made_for_star_shaped_sets_only():
    with pytest.raises(ArgumentError, match="expected a convex set, or `star_shaped=True`"):
        make_map("ray", CASES["R+D"].constraint, CASES["R+D"].contexts)
    for option, value in {"softness": 0.005, "width": 0.5}.items():
        with pytest.raises(ArgumentError, match=f"^`{option}`: expected a number in"):
            make_map("ray", CASES["R+L2"].constraint, NO_CONTEXT, **{option: value})
    with pytest.raises(UnknownNameError, match="did you mean 'smooth'"):
        make_map("ray", CASES["R+L2"].constraint, NO_CONTEXT, profile="smoth")


@each(["H+O+S", "R+T", "half-spaces", "sum", "user power"])
def test_gauge_is_where_the_ray_leaves_the_set(name):
    """The closed forms against bisection on membership, in float64 on the host."""
    case = CASES[name]
    rng = np.random.default_rng(0)
    x = np.asarray(case.contexts.sample(jax.random.key(1), 40))
    rays = rng.normal(size=(40, case.constraint.action_dim)).astype(np.float32)
    centres = np.asarray(jax.vmap(case.constraint.centre)(jnp.asarray(x)))
    at_zero = not centres.any() and name not in ("half-spaces", "user power")
    values = jax.vmap(lambda x, c, v: gauge(case.constraint, x, c, v, at_zero=at_zero))(x, jnp.asarray(centres), rays)
    inside, outside = np.zeros(40), np.full(40, 20.0)
    for _ in range(40):
        middle = (inside + outside) / 2
        good = np.asarray(case.constraint.contains(x, (centres + middle[:, None] * rays).astype(np.float32)))
        inside, outside = np.where(good, middle, inside), np.where(good, outside, middle)
    np.testing.assert_allclose(1 / np.asarray(values), inside, rtol=2e-3, atol=2e-4)


def test_auto_takes_a_certified_map_where_there_is_one():
    chosen = {name: kind_for(CASES[name].constraint) for name in CASES}
    assert {chosen[name] for name in ("H+M", "H+O+S", "W+M", "W+O+S", "HC+O", "HC+MA")} == {"slice"}
    assert {chosen[name] for name in ("sum", "simplex", "sum and box")} == {"share"}
    assert {chosen[name] for name in ("R+L2", "R+D")} == {"orb"}
    assert chosen["H+D"] == "shell"
    assert {chosen[name] for name in ("R+T", "half-spaces", "ellipsoid", "user power")} == {"gauge"}
    assert chosen["user shell"] == "boxspline"


def test_charts_are_derived_from_the_rows():
    """A set known only as a function gets the coordinates that its built-in twin gets."""
    shell, power = CASES["user shell"], CASES["user power"]
    chart = make_map("boxspline", shell.constraint, shell.contexts, width=4).chart
    assert isinstance(chart, Surroundings)
    np.testing.assert_allclose([chart.inner, chart.outer], [1.4**0.5, 1.5**0.5], atol=5e-3)
    assert make_map("boxspline", power.constraint, power.contexts, width=4).chart == Extents(power.constraint)
    tip = CASES["R+T"]
    assert make_map("boxspline", tip.constraint, tip.contexts, width=4).chart == Extents(tip.constraint, axes=False)
    assert isinstance(make_map("slice", power.constraint, power.contexts, width=4).chart, Slices)
    assert isinstance(map_case("shell H+D").map.chart, Shells)


def test_symmetries_are_found():
    both = find_symmetry(CASES["H+O+S"].constraint, CASES["H+O+S"].contexts)
    assert both.even == (True,) * 3
    assert both.blind == (True,) * 6
    power = find_symmetry(CASES["user power"].constraint, CASES["user power"].contexts)
    assert power.even == (False,) * 3
    assert power.partner == (0, 1, 2)
    x, signs = power.canonical(jnp.asarray([2.0, -3.0, 0.5]))
    np.testing.assert_array_equal(x, [2.0, 3.0, 0.5])
    np.testing.assert_array_equal(signs, [1.0, -1.0, 1.0])
    assert find_symmetry(CASES["ellipsoid"].constraint, NO_CONTEXT).even == (False,) * 3


@pytest.mark.thorough
def test_gauge_finds_a_centre_where_the_constraint_has_none():
    """Half-spaces that exclude the origin in some contexts, and never are empty."""
    away = cv.HalfSpaces(2, 1)
    contexts = cv.Product((cv.Uniform(1, -0.5, 0.4), cv.Uniform(2, 0.5, 1.0)))
    map_ = make_map("gauge", away, contexts, splines=False)
    assert map_.chart == Gauge(away, anchored=True)
    quality = measure(map_, contexts, latents=20_000, context_count=64)
    assert quality.infeasible == 0
    assert quality.recall > 0.97


@pytest.mark.thorough
def test_gauge_is_smooth_at_its_centre():
    chart = map_case("gauge R+T").map.chart
    x = jnp.asarray([0.7])
    for y in (jnp.zeros(2), jnp.asarray([1e-7, 0.0]), jnp.asarray([0.0, 0.1])):
        action, log_det = chart.to_action(x, chart.frame(x), y)
        assert np.all(chart.constraint.contains(x, action))
        assert np.isfinite(log_det)
        features = jax.jacobian(lambda y: chart.features(x, chart.frame(x), y, 1))(y)
        assert np.all(np.isfinite(features))


def test_a_ring_is_exactly_uniform():
    task = cv.task("R+D")
    ring = make_map("shell", task.constraint, task.contexts, splines=False)
    latents = draw_latents("normal", jax.random.key(0), 1000, 2)
    density = jax.vmap(lambda z: log_base("normal", z) - ring.forward(z, jnp.zeros(0))[1])(latents)
    np.testing.assert_allclose(density, -np.log(np.pi * 0.01), atol=1e-3)


def test_real_nvp_transforms_a_single_entry():
    map_ = RealNVP(cv.Ball(1, 0.5), (), width=4)
    assert len(map_.couplings) == 3
    action, log_det = map_.forward(jnp.asarray([0.3]), jnp.zeros(0))
    np.testing.assert_allclose(map_.inverse(action, jnp.zeros(0))[0], [0.3], atol=1e-5)
    assert log_det.shape == ()


def test_zeros_make_the_identity_spline():
    points = jnp.linspace(-1, 1, 101)
    identity = make_spline(jnp.zeros(parameter_count(8)), 8)
    np.testing.assert_allclose(jax.vmap(identity.transform)(points), points, atol=1e-5)


def test_bad_arguments_are_named():
    shell, power, tip = (CASES[name] for name in ("R+D", "H+M", "R+T"))
    for argument, call in {
        "contexts": lambda: make_map("auto", power.constraint, NO_CONTEXT),
        "constraint": lambda: make_map("gauge", shell.constraint, shell.contexts),
    }.items():
        with pytest.raises(ArgumentError, match=f"^`{argument}`: expected .*, got "):
            call()
    with pytest.raises(ArgumentError, match=r"try `gauge`"):
        make_map("slice", tip.constraint, tip.contexts)
    with pytest.raises(ArgumentError, match=r"expected a Shell"):
        make_map("shell", tip.constraint, tip.contexts)
    with pytest.raises(UnknownNameError, match="did you mean 'normal'"):
        make_map("slice", power.constraint, power.contexts, base="norm", splines=False)
    with pytest.raises(UnknownNameError, match="did you mean 'boxspline'"):
        make_map("box-spline", power.constraint, power.contexts)


def test_a_kind_may_carry_options():
    square, none = cv.Box(2), cv.Uniform(0, -1, 1)
    map_ = cv.make_map("Ray:softness=0.3, squash=tanh,anchored=true", square, none)
    assert (map_.softness, map_.squash, map_.anchored) == (0.3, "tanh", True)
    assert parse_kind("slice:bins=4,splines=false") == ("slice", {"bins": 4, "splines": False})
    for text, problem in (
        ("ray:softnes=0.3", "option of a `ray` map 'softnes': did you mean 'softness'"),
        ("ray:softness", "`kind`: expected a kind of map, with options as in"),
        ("rya:softness=0.3", "unknown kind of map 'rya': did you mean 'ray'"),
        ("ray:softness=7", "`softness`: expected a number in"),
        ("orb:bins=3", "option of a `orb` map 'bins'"),
    ):
        with pytest.raises(CVFlowsError, match=problem):
            cv.make_map(text, square, none)


def test_calm_takes_a_ray_where_the_set_allows_one():
    for name, kind in (("W+M", "ray"), ("H+D", "shell"), ("R+D", "orb"), ("R+L2", "ray")):
        task = cv.task(name)
        found = kinds_for(task.constraint, calm=True)
        assert found[0].name == kind
    assert kinds_for(cv.task("W+M").constraint)[0].name == "slice"
    assert kinds_for(cv.task("W+M").constraint, {"bins": 4}, calm=True)[0].name == "slice"  # a ray map has no bins
