"""State-wise constraints: which actions keep the *next* state safe, learned from transitions.

A state is safe when its costs c_i(s) are ≤ 0. A signal model predicts by how much an action changes them,

    c_i(s') - c_i(s) ≈ b_i(s) + w_i(s)·a,

and C(s) is what that allows, a set of half-spaces in a:

| form | rows |
|---|---|
| `paper` | c_i + w_i·a ≤ 0, with b_i = 0: momentum is not seen |
| `drift` | c_i + b_i + w_i·a ≤ 0: the next state is safe, but it may be too late to brake |
| `stopping` | b_i + w_i·a ≤ room_i: what is left after this step suffices to stop |
| `cbf` | b_i + w_i·a ≤ -κ_i c_i: of the distance to a limit, a share κ may be used up, c(s') ≤ (1-κ)c(s) |
| `backup` | c_j + b_j + w_j·a ≤ 0, for every face of a region that a learned feedback law never leaves |

`stopping` asks how far a change Δ of the cost carries on: a share φ of it persists, and full braking takes off
S_i = ‖w_i‖₁ at every step, less what pushes against it, e_i. So Δ + φ²Δ²/2(S_i - e_i) ≤ -c_i, or

    room_i = -2c_i / (1 + √(1 - 4A_i c_i)),   A_i = φ_i² / 2(S_i - e_i);   where c_i > 0:  room_i = -min(c_i, S_i).

With φ = 0 it is `drift`. φ, e and the largest error of the signal model, by which the rows are tightened, are learned
too. How these are learned is in `learning.py`, the region of `backup` in `backup.py`.

Rows are divided by S_i. One that no action can satisfy is loosened until the action that comes closest to it does,
within 2 % of its range, so that a set is empty only where rows contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from cvflows.constraints.base import AbstractConstraint, Vector
from cvflows.constraints.forms import Cvxpy, Expression, Form, half_spaces
from cvflows.constraints.legacy_metric import LegacyRows, linear_rows
from cvflows.constraints.shapes.affine import Affine
from cvflows.constraints.signals import SignalModel
from cvflows.errors import ArgumentError

FORMS = {"paper": "network", "drift": "affine", "stopping": "affine", "cbf": "affine", "backup": "affine"}
"""Every form, with the family of signal models it starts from."""
SLIVER = 0.02
"""What is left of a row's range where no action satisfies it."""
DEPTHS = (0.5, 0.1, 0.01)
STEPS = 2
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

    def __getitem__(self, rows: np.ndarray) -> Transitions:
        """Those of some rows: a mask, or indices."""
        return Transitions(self.before[rows], self.actions[rows], self.after[rows])

    def __add__(self, others: Transitions) -> Transitions:
        """These, then others."""
        pairs = ((getattr(self, name), getattr(others, name)) for name in ("before", "actions", "after"))
        return Transitions(*map(np.concatenate, pairs))


@dataclass(frozen=True, eq=False)
class LearnedConstraint(AbstractConstraint):
    """The actions after which a state stays safe, as far as `model` knows; the context is the whole observation.

    `persistence`, `push` and `error` are φ (for `cbf`, 1 - κ), e and the tightening of each row; where a form has none
    of them, zero. `cost` of the form `backup` are the faces of its region.
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
        if self.form == "cbf":
            return jnp.where(c > 0, -jnp.minimum(c, strength), (jnp.asarray(self.persistence) - 1) * c)
        if self.form != "stopping":
            return -c
        brake = jnp.maximum(strength - jnp.asarray(self.push), 0.1 * strength)
        A = jnp.asarray(self.persistence) ** 2 / jnp.maximum(2 * brake, 1e-9)
        safe = jnp.minimum(c, 0)
        return jnp.where(c > 0, -jnp.minimum(c, strength), -2 * safe / (1 + jnp.sqrt(1 - 4 * A * safe)))

    def _claims(self, x: Vector) -> tuple[Array, Array, Array]:
        """(offset, normal, most) of the rows before any is loosened; `most` is what full braking takes off each."""
        drift, slope = self.model(x)
        strength = jnp.sum(jnp.abs(slope), axis=1)
        scale = jnp.maximum(strength, 1e-6)
        offset = (drift + jnp.asarray(self.error) - self._room(self.cost(x), strength)) / scale
        return offset, slope / scale[:, None], (1 - SLIVER) * strength / scale

    def claims(self, x: Vector) -> tuple[Array, Array]:
        """(offset, normal) of the rows as they were learned, even those that no action satisfies."""
        return self._claims(x)[:2]

    def offsets_and_normals(self, x: Vector) -> tuple[Array, Array]:
        """(offset, normal) of the rows offset + normal·a ≤ 0, each normal of size ‖·‖₁ = 1."""
        offset, normal, most = self._claims(x)
        return jnp.minimum(offset, most), normal

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
