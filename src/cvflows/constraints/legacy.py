"""When the papers of this field call an action forbidden. Looser than our one strict tolerance; kept for comparison.

- Kasaura et al. 2023, and what builds on their code: a row's own unit matters; linear rows and the box may be 0.1 over,
  quadratic ones 0.01, a norm 0.001.
- FlowPG: the positive parts of all rows, in their own units, may sum to 0.1.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from cvflows.constraints.base import AbstractConstraint, Intersection, Reads
from cvflows.constraints.sets import Ball, Ellipsoid, MaxPower, MomentArm, Orthoplex, Shell, SinSquared, Tip

LINEAR, QUADRATIC, NORM = 0.1, 0.01, 0.001
FLOWPG = 0.1


def legacy_rows(constraint: AbstractConstraint) -> tuple[np.ndarray, np.ndarray]:
    """Per row, the box apart: its unit (row times unit is the unnormalised g) and what Kasaura's code lets it be."""
    match constraint:
        case Intersection(parts=parts):
            pairs = [legacy_rows(part) for part in parts]
            return np.concatenate([unit for unit, _ in pairs]), np.concatenate([limit for _, limit in pairs])
        case Reads(part=part):
            return legacy_rows(part)
        case MaxPower(bound=bound) | Orthoplex(bound=bound) | MomentArm(bound=bound):
            return np.array([bound]), np.array([LINEAR])
        case SinSquared(bound=bound) | Tip(bound=bound):
            return np.array([bound]), np.array([QUADRATIC])
        case Ball(radius=radius):
            return np.array([radius**2]), np.array([(radius + NORM) ** 2 - radius**2])
        case Shell(inner=inner, outer=outer):
            return np.array([outer**2, inner**2]), np.full(2, QUADRATIC)
        case Ellipsoid():
            return np.ones(1), np.array([QUADRATIC])
    x, a = jnp.zeros(constraint.context_dim), jnp.zeros(constraint.action_dim)
    count = jax.eval_shape(constraint.rows, x, a).shape[0]
    return np.ones(count), np.full(count, LINEAR)
