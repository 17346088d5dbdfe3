"""What a learner is told of its task, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from cvflows.constraints.base import AbstractConstraint

Numbers = Array | np.ndarray
"""An array of JAX inside compiled functions, of numpy outside of them."""
Observations = Float[Array, "batch observation"]
Latents = Float[Array, "batch action"]
Contexts = Float[Array, "batch context"]
Scalars = Float[Array, " batch"]


class Problem(NamedTuple):
    """Sizes, the allowed actions, and how a context is read from an observation (last axis, JAX in, JAX out)."""

    observation_dim: int
    constraint: AbstractConstraint
    read: Callable[[Array], Array]

    @property
    def action_dim(self) -> int:
        return self.constraint.action_dim


class Acted(NamedTuple):
    """Latents, their actions, and how the constraint finds them; a row per observation.

    `largest` is the action's largest row. `asked`, `violation`, `kasaura` and `flowpg` speak of the action asked for,
    before any correction: its largest row, the sum of its positive ones, and whether two looser tolerances of the
    literature would call it forbidden. `rejected` holds, for each observation, latents that were drawn before and
    rejected. Latents are as they were drawn, before any clipping.
    """

    latent: Numbers
    action: Numbers
    largest: Numbers
    asked: Numbers
    violation: Numbers
    kasaura: Numbers
    flowpg: Numbers
    rejected: list[np.ndarray] | None = None
