"""Sets known by name: what each must state, and how one is added."""

import inspect
import json
from dataclasses import dataclass
from typing import get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cases import CASES
from cvflows.constraints.base import Intersection, Reads
from cvflows.constraints.forms import Form, setter
from cvflows.constraints.legacy_metric import QUADRATIC, one_row
from cvflows.constraints.reference import ReferenceSolver
from cvflows.constraints.sets.named import NamedSet
from cvflows.constraints.sets.registry import SETS, register
from cvflows.constraints.shapes.separable import normalised
from cvflows.constraints.spec import describe, fingerprint, is_same, rebuild
from cvflows.errors import ArgumentError, CVFlowsError

BATCH = 64


@dataclass(frozen=True)
class Lens(NamedSet):
    """Σ x_k² a_k² ≤ bound: a set that the package does not have, in everything that a new one needs."""

    dim: int
    bound: float
    convex = proven = True

    @property
    def action_dim(self):
        return self.dim

    @property
    def context_dim(self):
        return self.dim

    def rows(self, x, a):
        return (jnp.sum((x * a) ** 2) / self.bound - 1)[None]

    def shape(self, x):
        return normalised(quadratic=x**2 / self.bound)

    def reference_form(self, cvxpy, y):
        weight = cvxpy.Parameter(self.dim)
        return Form([cvxpy.norm(cvxpy.multiply(weight, y)) <= self.bound**0.5], setter(weight))

    def legacy_rows(self):
        return one_row(self.bound, QUADRATIC)


@dataclass
class Loose(NamedSet):
    """Complete, but neither frozen nor hashable."""

    dim: int
    rows, reference_form, legacy_rows = Lens.rows, Lens.reference_form, Lens.legacy_rows


@pytest.fixture
def lens():
    register(Lens)
    yield Lens(3, 0.8)
    del SETS["Lens"]


def parts_of(constraint):
    if isinstance(constraint, Reads):
        yield from parts_of(constraint.part)
    elif isinstance(constraint, (Intersection, cv.Union)):
        for part in constraint.parts:
            yield from parts_of(part)
    else:
        yield constraint


def leaves():
    """Every set without parts in the list of cases."""
    for case in CASES.values():
        yield from parts_of(case.constraint)


def kind_of(make):
    return make if inspect.isclass(make) else get_type_hints(make)["return"]


@pytest.mark.parametrize("name", SETS)
def test_every_set_is_among_the_cases(name):
    assert any(type(leaf) is kind_of(SETS[name]) for leaf in leaves()), f"tests/cases.py has no {name}"


@pytest.mark.parametrize("constraint", list(dict.fromkeys(leaves())), ids=lambda leaf: type(leaf).__name__)
def test_what_a_set_states_fits_its_rows(constraint):
    x, a = jnp.zeros(constraint.context_dim), jnp.zeros(constraint.action_dim)
    count = constraint.rows(x, a).shape[0]
    units, limits = constraint.legacy_rows()
    assert units.shape == limits.shape == (count,)
    assert (units > 0).all()
    assert (limits > 0).all()
    if not isinstance(constraint, NamedSet) or not constraint.convex:
        if not isinstance(constraint, cv.LearnedConstraint):
            with pytest.raises(CVFlowsError, match="no cvxpy form"):
                ReferenceSolver(constraint)
        return
    assert rebuild(json.loads(json.dumps(describe(constraint)))) == constraint
    ReferenceSolver(constraint)


def test_a_new_set_is_projected_and_maximised(lens):
    x = np.random.default_rng(0).uniform(-3, 3, (BATCH, 3)).astype(np.float32)
    a = np.random.default_rng(1).uniform(-2, 2, (BATCH, 3)).astype(np.float32)
    solver = ReferenceSolver(lens)
    found, best = lens.projection(x, a), lens.maximisation(x, a)
    assert np.all(np.asarray(found.outcome) == cv.Outcome.EXACT)
    assert np.all(np.asarray(lens.contains(x, best.action)))
    for i in range(16):
        np.testing.assert_allclose(found.action[i], solver.project(x[i], a[i]), atol=1e-4)
        np.testing.assert_allclose(a[i] @ best.action[i], a[i] @ solver.maximise(x[i], a[i]), atol=1e-4)


def test_a_new_set_has_a_gauge_map(lens):
    contexts = cv.Uniform(3, 1.0, 3.0)
    map_ = cv.make_map("gauge", lens, contexts, splines=False)
    assert map_.certified
    x = contexts.sample(jax.random.key(0), BATCH)
    latents = jax.random.normal(jax.random.key(1), (BATCH, 3)) * 3
    actions, _ = jax.vmap(map_.forward)(latents, x)
    rows = jax.vmap(lens.rows)(x, actions)
    assert np.all(np.asarray(lens.contains(x, actions)))
    assert float(jnp.max(rows)) > -0.2  # and reaches for the boundary


def test_a_new_set_is_written_to_files_and_read_again(lens):
    both = lens.reads((0, 1, 2), of=4) & cv.Ball(3, 0.7)
    data = json.loads(json.dumps(describe(both)))
    assert data["all_of"][0]["part"] == {"set": "Lens", "dim": 3, "bound": 0.8}
    assert rebuild(data) == both
    assert is_same(rebuild(data), fingerprint(both))
    assert cv.make_set("lens", dim=3, bound=0.8) == lens


def test_an_unregistered_set_is_not_described():
    assert describe(Lens(3, 0.8)) is None


@pytest.mark.parametrize("method", ["reference_form", "legacy_rows"])
def test_a_set_that_forgets_something_is_refused(method):
    incomplete = type("Incomplete", (Lens,), {method: getattr(NamedSet, method)})
    with pytest.raises(ArgumentError, match=method):
        register(incomplete)
    assert "Incomplete" not in SETS


def test_only_sets_with_names_of_their_own_are_registered():
    with pytest.raises(ArgumentError, match="no other set has"):
        register(type("Ball", (Lens,), {}))
    with pytest.raises(ArgumentError, match="NamedSet"):
        register(cv.Constraint)
    with pytest.raises(ArgumentError, match="NamedSet"):
        register(lambda dim: cv.Ball(dim, 0.5))
    with pytest.raises(ArgumentError, match="frozen"):
        register(Loose)
    assert cv.make_set("Ball", dim=2, radius=0.5) == cv.Ball(2, 0.5)
