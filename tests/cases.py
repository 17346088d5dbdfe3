"""Every constraint the tests run on, listed once: a new set needs one new line here."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cvflows as cv
from cvflows.constraints.contexts import ContextDistribution
from cvflows.constraints.learned import LearnedConstraint
from cvflows.constraints.signals import Polynomial
from cvflows.maps.base import ActionMap
from cvflows.maps.kinds import make_map
from cvflows.tasks.catalogue import TASKS

NO_CONTEXT = cv.Uniform(0, -1, 1)


@dataclass(frozen=True)
class Case:
    """A constraint, contexts to try it in, and the built-in twin that an oracle understands."""

    constraint: cv.AbstractConstraint
    contexts: ContextDistribution
    twin: cv.AbstractConstraint | None = None
    zeros: bool = True  # whether contexts with zero entries leave the set non-empty

    @property
    def reference(self) -> cv.AbstractConstraint:
        return self.twin or self.constraint

    def draw(self, seed: int, count: int, reach: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
        """Contexts and actions up to ±reach, with zeros and repeated values among them."""
        rng = np.random.default_rng(seed)
        x = np.array(self.contexts.sample(jax.random.key(seed), count))
        if self.zeros:
            x[: count // 16] *= rng.integers(0, 2, x[: count // 16].shape)
        a = rng.uniform(-reach, reach, (count, self.constraint.action_dim)).astype(np.float32)
        a[: count // 8] = np.round(a[: count // 8])
        return x, a


def _half_spaces(dim: int, count: int) -> ContextDistribution:
    return cv.Product((cv.Uniform(count, -1.0, -0.1), cv.Normal(count * dim, 0, 1)))


def power(x: jax.Array, a: jax.Array) -> jax.Array:
    return jnp.sum(jnp.maximum(x * a, 0)) / 10 - 1


def hollow(x: jax.Array, a: jax.Array) -> jax.Array:
    return jnp.stack([a @ a / 1.5 - 1, 1 - a @ a / 1.4])


def upper(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return x[:1] + 0.5, jnp.ones((1, 1))


def lower(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return 0.6 - x[:1], -jnp.ones((1, 1))


MATRIX = [[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]]
USER_DISC = cv.Constraint(lambda x, a: jnp.sum(a * a) / 0.2 - 1, action_dim=2, convex=True)
USER_POWER = cv.Constraint(power, action_dim=3, context_dim=3, convex=True)
CORNER = cv.Box(2, 0.4, 1.0) & cv.Ball(2, 0.6)
"""The origin satisfies every row of the ball, and lies outside the box."""
LEFT_DISC = cv.Ellipsoid(16 * np.eye(2), middle=(-0.6, 0.0))
RIGHT_DISC = cv.Ellipsoid(25 * np.eye(2), middle=(0.6, 0.2))
DISCS = cv.Union(LEFT_DISC, RIGHT_DISC)
GATES = cv.Union(cv.HalfSpaces(1, 1, upper, context_dim=1), cv.HalfSpaces(1, 1, lower, context_dim=1))
"""a ≤ -x - ½, empty for x > ½; a ≥ 0.6 - x, empty for x < -0.4."""

TWINS = ("R+N", "R+O03", "R+O10", "R+O30", "R+M", "H+M", "Ant+L2", "BSS3z", "BSS5z")
"""Tasks whose sets differ from others only in a bound or in size: the solvers need not be compiled for each."""
ACTION_TASKS = {name: task for name, task in TASKS.items() if task.limits is None}


def _ship() -> LearnedConstraint:
    """The corridor with its dynamics known: Δc = ∓(0.1 v₁ + 0.01 a₁) for the left and the right wall."""
    drift, thrust = np.zeros(5), np.zeros(5)
    drift[3], thrust[0] = 0.1, 0.01
    wall = np.stack([drift, thrust, np.zeros(5)])
    model = Polynomial(np.zeros(4), np.ones(4), np.stack([-wall, wall]).astype(np.float32))
    return LearnedConstraint(cv.Ranges({0: (0.05, 0.95)}), "stopping", model, (0.95, 0.95), (0.0, 0.0), (0.0, 0.0))


CASES: dict[str, Case] = {name: Case(task.constraint, task.contexts) for name, task in ACTION_TASKS.items()} | {
    "learned ship": Case(_ship(), cv.Product((cv.Uniform(2, 0.0, 1.0), cv.Uniform(2, -0.3, 0.3)))),
    "tight box": Case(cv.Box(3, low=(-0.5, 0.2, -1.0), high=(0.5, 0.9, 0.3)), NO_CONTEXT),
    "box and ball": Case(cv.Box(3, low=-0.4, high=1.0) & cv.Ball(3, 0.6), NO_CONTEXT),
    "power and ball": Case(cv.MaxPower(3, 10.0) & cv.Ball(3, 0.5), cv.Uniform(3, -10, 10)),
    "half-spaces": Case(cv.HalfSpaces(3, 4), _half_spaces(3, 4), zeros=False),
    "one half-space": Case(
        cv.HalfSpaces(3, 1), cv.Product((cv.Uniform(1, -0.5, 0.5), cv.Uniform(3, 0.3, 1.0))), zeros=False
    ),
    "ellipsoid": Case(cv.Ellipsoid(MATRIX, middle=(0.1, -0.2, 0.3)), NO_CONTEXT),
    "simplex": Case(cv.Simplex(5), NO_CONTEXT),
    "sum": Case(cv.Sum(4, total=None, low=-0.5, high=(1.0, 0.5, 0.8, 1.0)), cv.Uniform(1, -1.5, 3.0)),
    "sum and box": Case(cv.Sum(4, total=1.0) & cv.Box(4, low=0.1, high=(0.6, 0.3, 0.3, 0.3)), NO_CONTEXT),
    "three parts": Case(
        cv.Orthoplex(3, 10.0).reads((0, 1, 2), of=6) & cv.SinSquared(3, 0.5).reads((3, 4, 5), of=6) & cv.Ball(3, 0.8),
        cv.Product((cv.Uniform(3, -10, 10), cv.Uniform(3, -math.pi, math.pi))),
    ),
    "user power": Case(USER_POWER, cv.Uniform(3, -10, 10), twin=cv.MaxPower(3, 10.0)),
    "user power and ball": Case(
        USER_POWER & cv.Ball(3, 0.5), cv.Uniform(3, -10, 10), twin=cv.MaxPower(3, 10.0) & cv.Ball(3, 0.5)
    ),
    "two discs": Case(DISCS, NO_CONTEXT),
    "user shell": Case(cv.Constraint(hollow, action_dim=3), NO_CONTEXT, twin=cv.Shell(3, 1.4**0.5, 1.5**0.5)),
}
ONLY_MAPPED = {
    "64 entries": Case(cv.Orthoplex(64, 20.0), cv.Uniform(64, -10, 10)),
    "gates": Case(GATES, cv.Uniform(1, -1, 2)),
}
"""Sets on which only maps are tried."""
SETS = [name for name in CASES if name not in TWINS]
CONVEX = [name for name in SETS if CASES[name].constraint.convex]


THOROUGH = (
    *("H+O+S", "R+T", "HC+MA", "half-spaces", "three parts", "user power", "user power and ball", "user shell"),
    *(
        "slice H+M",
        "slice of a half-space",
        "slice of a simplex",
        "shares of a sum",
        "gauge R+T",
        "gauge of half-spaces",
    ),
    *("gauge of a function", "shell H+D", "box spline H+D", "coupling H+M", "coupling H+M, mirrored"),
    *(
        "union of functions",
        "ray of half-spaces",
        "gauge of a learned set",
        "slice H+O+S, plain",
        "shares of a simplex",
    ),
)
"""Sets and maps that compile longest and have simpler relatives in the list."""


def each(names: Iterable[str]) -> pytest.MarkDecorator:
    """Parametrise by `name`; tests of one set share a worker, and with it the compiled solvers."""

    def marks(name: str) -> list[pytest.MarkDecorator]:
        return [pytest.mark.xdist_group(name), *([pytest.mark.thorough] if name in THOROUGH else [])]

    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in names])


@dataclass(frozen=True)
class MapCase:
    """A map, the contexts to try it in, and whether it promises feasible actions."""

    map: ActionMap
    contexts: ContextDistribution
    certified: bool


CERTIFIED_KINDS = ("auto", "orb", "slice", "share", "gauge", "shell", "ray")


def _map_case(case: str, kind: str, **options: Any) -> MapCase:
    found = (CASES | ONLY_MAPPED)[case]
    small = {} if kind in ("orb", "ray") else {"width": 8} | ({"bins": 4} if kind != "realnvp" else {})
    map_ = make_map(kind, found.constraint, found.contexts, seed=3, **{**small, **options})
    return MapCase(map_, found.contexts, kind in CERTIFIED_KINDS)


MAPS: dict[str, tuple[Any, ...]] = {
    "orb R+L2": ("R+L2", "orb"),
    "orb R+D": ("R+D", "auto"),
    "slice H+M": ("H+M", "slice"),
    "slice H+O+S, plain": ("H+O+S", "slice", {"splines": False}),
    "slice R+L2, uniform base": ("R+L2", "slice", {"base": "uniform"}),
    "slice of a function": ("user power", "slice", {"splines": False}),
    "slice of a half-space": ("one half-space", "slice"),
    "slice of a simplex": ("simplex", "slice", {"splines": False}),
    "shares of a simplex": ("simplex", "auto", {"splines": False}),
    "shares of a sum": ("sum", "share"),
    "gauge R+T": ("R+T", "gauge"),
    "gauge of a learned set": ("learned ship", "auto", {"splines": False}),
    "gauge of half-spaces": ("half-spaces", "gauge", {"splines": False}),
    "gauge of an ellipsoid": ("ellipsoid", "auto", {"splines": False}),
    "gauge of a function": ("user power and ball", "gauge", {"splines": False}),
    "gauge of a box and a ball": ("box and ball", "gauge", {"splines": False}),
    "gauge of a box without 0": ("tight box", "gauge", {"splines": False}),
    "slice of a box without 0": ("tight box", "slice", {"splines": False}),
    "ray R+L2": ("R+L2", "ray"),
    "ray H+M, linear": ("H+M", "ray", {"profile": "linear", "softness": 0.3}),
    "ray H+O+S, tanh": ("H+O+S", "ray", {"squash": "tanh", "softness": 1.0}),
    "ray HC+O, wide": ("HC+O", "ray", {"width": 2.0}),
    "ray R+L2, uniform base": ("R+L2", "ray", {"base": "uniform", "softness": 0.01}),
    "ray of a learned set": ("learned ship", "ray"),
    "ray of half-spaces": ("half-spaces", "ray"),
    "ray of a box and a ball": ("box and ball", "ray"),
    "ray of a box without 0": ("tight box", "ray"),
    "ray of a function": ("user power and ball", "ray"),
    "ray of 64 entries": ("64 entries", "ray"),
    "union of two discs": ("two discs", "auto", {"splines": False}),
    "union of functions": ("gates", "auto", {"splines": False}),
    "shell R+D": ("R+D", "shell"),
    "shell H+D": ("H+D", "auto"),
    "box spline R+L2, uniform base": ("R+L2", "boxspline", {"base": "uniform"}),
    "box spline H+D": ("H+D", "boxspline"),
    "coupling H+M": ("H+M", "coupling", {"layers": 2}),
    "coupling H+M, mirrored": ("H+M", "coupling", {"layers": 2, "mirrored": True}),
    "slice H+M, plain and mirrored": ("H+M", "slice", {"splines": False, "mirrored": True}),
    "RealNVP R+M": ("R+M", "realnvp"),
    "RealNVP R+L2, joint, uniform base": ("R+L2", "realnvp", {"base": "uniform", "joint": True}),
}


@lru_cache
def map_case(name: str) -> MapCase:
    """A map of the list, made when a test asks for it."""
    case, kind, *options = MAPS[name]
    return _map_case(case, kind, **(options[0] if options else {}))
