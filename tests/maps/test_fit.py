"""Fitting: what it learns from violations alone, what it refuses to start, when it stops, and what it stores."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cases import ACTION_TASKS, NO_CONTEXT, map_case
from cvflows.constraints.sample import feasible_pairs, hamiltonian_samples, rejection_samples
from cvflows.constraints.spec import describe, rebuild
from cvflows.errors import ArgumentError, ConstraintFunctionError, StoreError, UnknownNameError
from cvflows.files import read_record, write_record
from cvflows.maps.checks import check_fittable
from cvflows.maps.fit import FitConfig, fit, fit_to_samples
from cvflows.maps.kinds import make_map
from cvflows.maps.penalty import penalty_for_leak
from cvflows.maps.quality import measure
from cvflows.maps.store import FORMAT, load_map, save_map
from cvflows.runs.fitting import fit_map

DISC = cv.task("R+L2")


def small(kind, **options):
    return make_map(kind, DISC.constraint, DISC.contexts, **{"width": 16, **options})


def test_fit_learns_a_set_from_its_violation_alone():
    """A disc that fills 4 % of the box; the same seed gives the same map; training ends when the targets hold."""
    config = FitConfig(steps=400, batch=256, check_every=100)
    told = []
    first = fit(small("boxspline"), DISC.contexts, config, progress=lambda *call: told.append(call))
    quality = measure(first.map, DISC.contexts, latents=20_000, context_count=16)
    assert quality.accuracy > 0.98
    assert quality.recall > 0.97
    assert quality.kl < 0.05
    assert [check.step for check in first.checks] == [100, 200, 300, 400]
    assert [call[0] for call in told] == list(range(50, 401, 50))
    assert told[-1][2] == first.checks[-1]
    early = FitConfig(steps=400, batch=256, check_every=100, target_accuracy=0.5, target_recall=0.5)
    again = fit(small("boxspline"), DISC.contexts, early)
    assert again.steps == 100
    np.testing.assert_array_equal(first.losses[:100], again.losses)


@pytest.mark.thorough
def test_entropy_alone_makes_a_slice_uniform():
    plain = measure(small("slice", splines=False), DISC.contexts, latents=20_000, context_count=16)
    fitted = fit(small("slice"), DISC.contexts, FitConfig(steps=200, batch=256))
    after = measure(fitted.map, DISC.contexts, latents=20_000, context_count=16)
    assert after.infeasible == 0
    assert after.kl < plain.kl / 4
    assert fitted.penalty == 1.0


def test_nothing_to_fit_is_no_error():
    fitted = fit(small("slice", splines=False), DISC.contexts, FitConfig(steps=10))
    assert fitted.steps == 0


@pytest.mark.thorough
def test_maximum_likelihood_covers_the_samples():
    pairs = feasible_pairs(DISC.constraint, DISC.contexts, jax.random.key(0), 4000)
    assert pairs[1].shape == (4000, 2)
    assert np.all(DISC.constraint.contains(*pairs))
    config = FitConfig(steps=300, batch=128, learning_rate=2e-3, gradient_clip=0.1)
    fitted = fit_to_samples(small("realnvp", base="uniform"), DISC.contexts, pairs, config)
    quality = measure(fitted.map, DISC.contexts, latents=20_000, context_count=16)
    assert quality.recall > 0.95
    assert quality.accuracy > 0.6


def test_samplers_agree_with_closed_forms():
    """A ball of radius ½ in space: each entry has standard deviation r/√5, the volume is 4/3 π r³."""
    ball, x = cv.Ball(3, 0.5), jnp.zeros((4, 0))
    rejected = rejection_samples(ball, x, jax.random.key(0))
    np.testing.assert_allclose(rejected.log_volume, np.log(4 / 3 * np.pi / 8), atol=0.05)
    for samples in (rejected, hamiltonian_samples(ball, x, jax.random.key(0))):
        inside = np.asarray(samples.actions)[samples.accepted]
        np.testing.assert_allclose(inside.mean(axis=0), 0, atol=0.02)
        np.testing.assert_allclose(inside.std(axis=0), 0.5 / np.sqrt(5), atol=0.015)
        np.testing.assert_allclose(np.mean(np.linalg.norm(inside, axis=1) < 0.25), 1 / 8, atol=0.02)
    few = rejected.first(7)
    assert few.actions.shape == (4, 7, 3)
    assert few.accepted.all()


def test_penalty_is_what_the_soft_target_asks_for():
    """On a disc ‖a‖² ≤ r² the mass of e^{-λ·(‖a‖²/r²-1)} outside is 1/λ of that inside: λ = 99 leaks 1 %."""
    np.testing.assert_allclose(penalty_for_leak(DISC.constraint, DISC.contexts, 0.01), 99, rtol=0.15)


def undefined(x, a):
    return jnp.log(jnp.sum(a)) - 1


def never(x, a):
    return 1.5 + jnp.sum(a * a) + 0 * jnp.sum(x)


def stepwise(x, a):
    return jnp.sign(jnp.sum(a * a) - 0.5 + 0 * jnp.sum(x)) + 0 * jnp.sum(a)


@pytest.mark.parametrize(
    ("g", "message"),
    [
        (undefined, r"row 0 of the constraint has no finite value at x=\(\), a=\("),
        (never, r"no action is allowed in 100.0% of the contexts, as at x=\("),
        (stepwise, r"the violation has no gradient.*at x="),
    ],
)
def test_what_cannot_work_is_refused_before_training(g, message):
    constraint = cv.Constraint(g, 2)
    with pytest.raises(ConstraintFunctionError, match=message):
        check_fittable(make_map("realnvp", constraint, NO_CONTEXT, width=4), NO_CONTEXT)


def test_empty_contexts_are_tolerated_when_asked():
    half = cv.HalfSpaces(2, 1)
    contexts = cv.Product((cv.Uniform(1, -1.0, 4.0), cv.Uniform(2, 0.5, 1.0)))
    map_ = make_map("realnvp", half, contexts, width=4)
    with pytest.raises(ConstraintFunctionError, match=r"no action is allowed in \d+\.\d% of the contexts, as at x=\("):
        check_fittable(map_, contexts)
    check_fittable(map_, contexts, allow_empty=0.9)


def test_bad_arguments_are_named():
    for argument, call in {
        "contexts": lambda: fit(small("slice", splines=False), cv.Uniform(2, -1, 1)),
        "anneal": lambda: FitConfig(anneal=2.0),
        "steps": lambda: FitConfig(steps=0),
        "penalty": lambda: FitConfig(penalty=-1.0),
        "check_every": lambda: FitConfig(target_recall=0.9),
    }.items():
        with pytest.raises(ArgumentError, match=f"^`{argument}`: expected .*, got "):
            call()
    assert FitConfig.paper(steps=7) == FitConfig(7, 256, 1e-5, 1000.0, 0.0, gradient_clip=0.1, decay=False)


def test_damaged_and_foreign_maps_are_refused(tmp_path):
    folder = save_map(small("boxspline"), tmp_path / "map", note="kept")
    record = read_record(folder / "map.json", FORMAT)
    assert record["note"] == "kept"

    def with_changes(**changes):
        write_record(tmp_path / "changed.json", FORMAT, {**record, **changes})
        return (tmp_path / "changed.json").read_bytes()

    def as_version(number):
        return (folder / "map.json").read_bytes().replace(b'"version": 2', b'"version": %d' % number)

    def damaged(file, content):
        for name in ("map.json", "map.safetensors"):
            (tmp_path / name).write_bytes((folder / name).read_bytes())
        (tmp_path / file).write_bytes(content)
        return tmp_path

    arrays = (folder / "map.safetensors").read_bytes()
    other = (save_map(small("boxspline", seed=5), tmp_path / "other") / "map.safetensors").read_bytes()
    for message, file, content in [
        ("is it truncated", "map.json", (folder / "map.json").read_bytes()[:100]),
        ("was not written by cvflows", "map.json", b'{"weights": 3}'),
        ("version 9, this cvflows reads 2: update cvflows", "map.json", as_version(9)),
        ("version 1, this cvflows reads 2: make it again", "map.json", as_version(1)),
        ("its checksum differs", "map.json", (folder / "map.json").read_bytes().replace(b"kept", b"lost")),
        ("does not describe a map", "map.json", with_changes(map="Spline")),
        ("does not describe a map", "map.json", with_changes(settings={**record["settings"], "width": 10**9})),
        ("holds other arrays", "map.json", with_changes(settings={"scale": [], "width": 8})),
        ("is it truncated", "map.safetensors", arrays[: len(arrays) // 2]),
        ("is not the file", "map.safetensors", other),
    ]:
        with pytest.raises(StoreError, match=message):
            load_map(damaged(file, content))
    with pytest.raises(StoreError, match=r"nowhere.*cannot be read"):
        load_map(tmp_path / "nowhere")
    with pytest.raises(ArgumentError, match=r"`constraint`: expected the set that the map"):
        load_map(folder, constraint=cv.Ball(2, 0.5))
    own = cv.Constraint(lambda x, a: jnp.sum(a * a) - 0.2, 2, convex=True)
    stored = save_map(make_map("gauge", own, NO_CONTEXT, splines=False), tmp_path / "own")
    with pytest.raises(ArgumentError, match="which contains a function"):
        load_map(stored)
    load_map(stored, constraint=own)


@pytest.mark.thorough
@pytest.mark.xdist_group("union of two discs")
def test_sizes_of_a_union_s_parts_are_checked_before_memory_is_taken(tmp_path):
    folder = save_map(map_case("union of two discs").map, tmp_path)
    record = read_record(folder / "map.json", FORMAT)
    record["parts"][1]["settings"]["width"] = 10**9
    write_record(folder / "map.json", FORMAT, record)
    with pytest.raises(StoreError, match=r"does not describe a map .1000000000 is more than"):
        load_map(folder)


@pytest.mark.parametrize("fitted_to", ["violation", "samples"])
def test_what_a_method_needs_is_fitted_for_a_task(fitted_to):
    """FlowPG's maps start from a uniform base and are fitted to samples; others, to the violation."""
    config = FitConfig(steps=3, batch=16, check_every=3)
    report = fit_map(DISC, "realnvp", config, fitted_to=fitted_to, layers=2, width=8)
    assert (report.kind, report.map.base) == ("realnvp", "uniform" if fitted_to == "samples" else "normal")
    assert (report.fitted.steps, len(report.fitted.checks), report.as_json()["map"]) == (3, 1, "realnvp")
    with pytest.raises(UnknownNameError, match="did you mean 'samples'"):
        fit_map(DISC, "realnvp", config, fitted_to="sample")


def test_failed_writes_leave_the_old_map(tmp_path, monkeypatch):
    folder = save_map(small("boxspline"), tmp_path)
    before = (folder / "map.safetensors").read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cvflows.files.os.fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        save_map(small("boxspline", seed=9), tmp_path)
    assert (folder / "map.safetensors").read_bytes() == before
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("name", ACTION_TASKS)
def test_constraints_survive_the_trip_through_json(name):
    constraint = ACTION_TASKS[name].constraint
    assert rebuild(json.loads(json.dumps(describe(constraint)))) == constraint
