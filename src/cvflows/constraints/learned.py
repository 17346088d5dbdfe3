"""State-wise constraints: which actions keep the *next* state safe, learned from transitions.

A state is safe when its costs c_i(s) are ≤ 0. A signal model predicts by how much an action changes them,

    c_i(s') - c_i(s) ≈ b_i(s) + w_i(s)·a,

and C(s) is what that allows, a set of half-spaces in a:

| form | rows |
|---|---|
| `paper` | c_i + w_i·a ≤ 0, with b_i = 0: momentum is not seen |
| `drift` | c_i + b_i + w_i·a ≤ 0: the next state is safe, but it may be too late to brake |
| `stopping` | b_i + w_i·a ≤ room_i: what is left after this step suffices to stop |

`stopping` asks how far a change Δ of the cost carries on: a share φ of it persists, and full braking takes off
S_i = ‖w_i‖₁ at every step, less what pushes against it, e_i. So Δ + φ²Δ²/2(S_i - e_i) ≤ -c_i, or

    room_i = -2c_i / (1 + √(1 - 4A_i c_i)),   A_i = φ_i² / 2(S_i - e_i);   where c_i > 0:  room_i = -min(c_i, S_i).

With φ = 0 it is `drift`. φ, e and the largest error of the signal model, by which the rows are tightened, are learned
too.

Rows are divided by S_i. One that no action can satisfy is loosened until the action that comes closest to it does,
within 2 % of its range, so that a set is empty only where rows contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from cvflows.constraints.base import AbstractConstraint, Vector
from cvflows.constraints.forms import Cvxpy, Expression, Form, half_spaces
from cvflows.constraints.legacy_metric import LegacyRows, linear_rows
from cvflows.constraints.shapes.affine import Affine
from cvflows.constraints.signals import SignalModel, fit_signal
from cvflows.errors import ArgumentError, look_up

FORMS = {"paper": "network", "drift": "affine", "stopping": "affine"}
"""Every form, with the family of signal models it starts from."""
SLIVER = 0.02
"""What is left of a row's range where no action satisfies it."""
DEPTHS = (0.5, 0.1, 0.01)
STEPS = 2
HELD_OUT = 3
"""Sets the choice of held-out transitions apart from whatever else was drawn with the same seed."""
Costs = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Transitions:
    """Observations (n, o), the actions taken there (n, d), and the observations that followed (n, o)."""

    before: np.ndarray
    actions: np.ndarray
    after: np.ndarray

    def __post_init__(self) -> None:
        for name in ("before", "actions", "after"):
            table = np.asarray(getattr(self, name), np.float64)
            if table.ndim != 2 or len(table) != len(self.before) or not table.size:
                raise ArgumentError(name, f"a table of {len(self.before)} rows", f"shape {table.shape}")
            if not np.isfinite(table).all():
                raise ArgumentError(name, "finite numbers", "NaN or infinity")
            object.__setattr__(self, name, table)
        if self.before.shape != self.after.shape:
            raise ArgumentError("after", f"shape {self.before.shape}, that of `before`", self.after.shape)

    def __len__(self) -> int:
        return len(self.before)


@dataclass(frozen=True, eq=False)
class LearnedConstraint(AbstractConstraint):
    """The actions after which a state stays safe, as far as `model` knows; the context is the whole observation.

    `persistence`, `push` and `error` are φ, e and the tightening of each row; all zero in the first two forms.
    """

    cost: Costs
    form: str
    model: SignalModel
    persistence: tuple[float, ...]
    push: tuple[float, ...]
    error: tuple[float, ...]
    convex = proven = True
    learned = searches_centre = True

    @property
    def action_dim(self) -> int:
        return self.model.action_dim

    @property
    def context_dim(self) -> int:
        return self.model.observation_dim

    def _room(self, c: Array, strength: Array) -> Array:
        """How much the costs may change in this step."""
        if self.form != "stopping":
            return -c
        brake = jnp.maximum(strength - jnp.asarray(self.push), 0.1 * strength)
        A = jnp.asarray(self.persistence) ** 2 / jnp.maximum(2 * brake, 1e-9)
        safe = jnp.minimum(c, 0)
        return jnp.where(c > 0, -jnp.minimum(c, strength), -2 * safe / (1 + jnp.sqrt(1 - 4 * A * safe)))

    def offsets_and_normals(self, x: Vector) -> tuple[Array, Array]:
        """(offset, normal) of the rows offset + normal·a ≤ 0, each normal of size ‖·‖₁ = 1."""
        drift, slope = self.model(x)
        strength = jnp.sum(jnp.abs(slope), axis=1)
        scale = jnp.maximum(strength, 1e-6)
        offset = (drift + jnp.asarray(self.error) - self._room(self.cost(x), strength)) / scale
        return jnp.minimum(offset, (1 - SLIVER) * strength / scale), slope / scale[:, None]

    def rows(self, x: Vector, a: Vector) -> Vector:
        offset, normal = self.offsets_and_normals(x)
        return offset + jnp.sum(normal * a[None], axis=1)

    def shape(self, x: Vector) -> Affine:
        return Affine(*self.offsets_and_normals(x))

    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        return half_spaces(cvxpy, y, (len(self.error), self.action_dim), self.offsets_and_normals)

    def legacy_rows(self) -> LegacyRows:
        return linear_rows(len(self.error))

    def centre(self, x: Vector) -> Vector:
        return deep_point(*self.offsets_and_normals(x))

    def __repr__(self) -> str:
        return f"LearnedConstraint({self.form}, {self.cost}, {type(self.model).__name__})"


def deep_point(offset: Array, normal: Array) -> Array:
    """A point well inside offset + normal·a ≤ 0 and the box, that moves continuously with them: the origin if that is.

    For each of a few depths, points that meet it are looked for by simultaneous projection, onto all rows at once. Rows
    that are nearly parallel or nearly at right angles, as those of positions are, need a step or two. Their mean,
    weighted by the square of the room that each has, has room too, since the set is convex.
    """
    away = normal / jnp.maximum(jnp.sum(normal**2, axis=1), 1e-12)[:, None]
    depths = jnp.asarray(DEPTHS)[:, None]
    points = jnp.zeros((len(DEPTHS), normal.shape[1]))

    def rows(points: Array) -> Array:
        return jnp.sum(points[:, None] * normal[None], axis=2) + offset[None]  # too small for a product of matrices

    for _ in range(STEPS):
        excess = jnp.maximum(rows(points) + depths, 0)
        points = jnp.clip(points - jnp.sum(excess[:, :, None] * away[None], axis=1), depths - 1, 1 - depths)
    room = jnp.maximum(-jnp.max(rows(points), axis=1), 0) ** 2
    total = jnp.sum(room)
    mean = jnp.sum(room[:, None] * points, axis=0) / jnp.maximum(total, 1e-30)
    return jnp.where(total > 0, mean, points[-1])


class Signal(NamedTuple):
    """What was learned about one cost.

    `error` is the held-out error of its predicted change (root mean square), `worst` the largest on any transition,
    `spread` how large that change is; `persistence` is φ. `push` is e, the largest drift that φ does not explain, and
    `strength` the median of S = ‖w‖₁, what full braking takes off. `overpowered` is the share of safe states in which
    the push is stronger than full braking.
    """

    error: float
    worst: float
    spread: float
    persistence: float
    push: float
    strength: float
    overpowered: float


class Learned(NamedTuple):
    """A constraint and how well its signal model predicts."""

    constraint: LearnedConstraint
    family: str
    transitions: int
    signals: tuple[Signal, ...]

    def as_json(self) -> dict[str, Any]:
        """Figures for machines."""
        costs = [signal._asdict() for signal in self.signals]
        return {"form": self.constraint.form, "model": self.family, "transitions": self.transitions, "costs": costs}


def learn(
    transitions: Transitions, cost: Costs, form: str = "stopping", *, family: str | None = None, seed: int = 0
) -> Learned:
    """The constraint of `form`, learned from transitions of a policy that tried many actions.

    **Arguments:**

    - `cost`: c(s), a JAX function of an observation that is ≤ 0 where it is safe, such as `Ranges`.
    - `form`: `paper`, `drift` or `stopping`, see above.
    - `family`: of signal models. `network`: one hidden layer of ten, as the paper's reference; `affine` or `quadratic`
      in the observation, by least squares. By default a network for `paper`, else affine, or quadratic where that
      predicts far better.
    """
    look_up("form", form, FORMS)
    form, chosen = form.casefold(), family or FORMS[form.casefold()]
    c, following = (np.asarray(cost(table), float) for table in (transitions.before, transitions.after))
    if c.ndim != 2:
        raise ArgumentError("cost", "a vector of costs for every observation", f"shape {c.shape[1:]}")
    held_out = np.random.default_rng([seed, HELD_OUT]).random(len(c)) < 0.1
    change = following - c
    if held_out.all() or not held_out.any():
        raise ArgumentError("transitions", "enough of them to learn from and to test on", len(c))

    def fitted(name: str) -> tuple[SignalModel, np.ndarray]:
        train = (transitions.before[~held_out], transitions.actions[~held_out], change[~held_out])
        model = fit_signal(name, *train, drift=form != "paper", seed=seed)
        predicted = model.predict(transitions.before[held_out], transitions.actions[held_out])
        return model, np.sqrt(np.mean((predicted - change[held_out]) ** 2, axis=0))

    model, error = fitted(chosen)
    if family is None and chosen == "affine" and (error > 0.01 * change.std(axis=0)).any():
        richer, less = fitted("quadratic")
        if (less < 0.7 * error).any():
            model, error, chosen = richer, less, "quadratic"
    worst = np.abs(model.predict(transitions.before, transitions.actions) - change).max(axis=0)
    persistence, excess = _carry_on(model.drift(transitions.after), change)
    push, strength = np.maximum(excess.max(axis=0), 0.0), model.strength(transitions.after)
    safe = (following <= 0).all(axis=1)
    safe = safe if safe.any() else np.ones_like(safe)
    overpowered = (excess > strength)[safe].mean(axis=0)
    used = (persistence, push, worst) if form == "stopping" else (np.zeros(c.shape[1]),) * 3
    constraint = LearnedConstraint(cost, form, model, *(tuple(map(float, values)) for values in used))
    spread, median = change.std(axis=0), np.median(strength, axis=0)
    signals = zip(error, worst, spread, persistence, push, median, overpowered, strict=True)
    return Learned(constraint, chosen, len(c), tuple(Signal(*map(float, signal)) for signal in signals))


def _carry_on(drift: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """φ, and what it does not explain of every next drift: drift - φ·(change of this step).

    φ is the slope of a regression with an intercept: a constant push is a push, not persistence.
    """
    centred = change - change.mean(axis=0)
    persistence = np.clip((drift * centred).sum(axis=0) / np.maximum((centred**2).sum(axis=0), 1e-300), 0.0, 1.0)
    return persistence, drift - persistence * change
