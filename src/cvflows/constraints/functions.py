"""Constraint: a set from any JAX functions of one context and one action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from cvflows.constraints.base import AbstractConstraint, Vector
from cvflows.constraints.trace import check_function
from cvflows.errors import ArgumentError, dimension, positive

ConstraintFunction = Callable[[Any, Any], Any]


@dataclass(frozen=True, init=False)
class Constraint(AbstractConstraint):
    """A set from any JAX functions of one context and one action: g(x,a) ≤ 0 and h(x,a) = 0.

    **Arguments:**

    - `g`: inequalities, returning a scalar or a vector that must be ≤ 0; or None.
    - `action_dim`, `context_dim`: sizes of `a` and `x`.
    - `convex`: whether the set is convex in `a`: then projection finds the global optimum.
    - `h`: equalities, a scalar or a vector that must be 0 within `margin`; or None. Convex sets need `h` affine in `a`.
    - `margin`: ε, how far from 0 an equality may be.
    - `anchor`: an action that lies inside the set, not on its boundary, in every context, if one is known.
    """

    g: ConstraintFunction | None
    h: ConstraintFunction | None
    action_dim: int
    context_dim: int
    convex: bool
    margin: float
    anchor: tuple[float, ...] | None

    def __init__(
        self,
        g: ConstraintFunction | None,
        action_dim: int,
        context_dim: int = 0,
        *,
        convex: bool = False,
        h: ConstraintFunction | None = None,
        margin: float = 1e-3,
        anchor: Sequence[float] | None = None,
    ) -> None:
        if g is None and h is None:
            raise ArgumentError("g", "a function, or `h`", "neither")
        fields = {
            "g": g,
            "h": h,
            "action_dim": dimension("action_dim", action_dim),
            "context_dim": dimension("context_dim", context_dim, least=0),
            "convex": bool(convex),
            "margin": positive("margin", margin),
            "anchor": None if anchor is None else tuple(float(value) for value in np.asarray(anchor).ravel()),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        for name, function in (("g", g), ("h", h)):
            if function is not None:
                check_function(name, function, self.context_dim, self.action_dim)
        if self.anchor is not None and len(self.anchor) != self.action_dim:
            raise ArgumentError("anchor", f"{self.action_dim} numbers", len(self.anchor))

    @property
    def thin(self) -> bool:
        return self.h is not None

    @property
    def holds_centre(self) -> bool:
        """By the user's word; an anchor on the edge of the action box is no point inside."""
        return self.anchor is not None and max(map(abs, self.anchor)) < 0.999

    @property
    def quadratic(self) -> bool:
        return self.convex and self.g is None  # an equality of a convex set is affine

    def rows(self, x: Vector, a: Vector) -> Vector:
        rows = []
        if self.g is not None:
            rows.append(jnp.atleast_1d(self.g(x, a)))
        if self.h is not None:
            h = jnp.atleast_1d(self.h(x, a))
            rows += [h - self.margin, -h - self.margin]
        return jnp.concatenate(rows)

    def centre(self, x: Vector) -> Vector:
        return jnp.zeros(self.action_dim) if self.anchor is None else jnp.asarray(self.anchor)
