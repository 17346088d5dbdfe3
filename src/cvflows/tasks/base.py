"""Task: which environment, which constraint, and how the constraint reads its context from an observation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cvflows.constraints.contexts import ContextDistribution, Uniform
from cvflows.errors import ArgumentError

if TYPE_CHECKING:  # listing the tasks must not load JAX
    from cvflows.constraints.base import AbstractConstraint


@dataclass(frozen=True)
class SetSpec:
    """One set of a task as data: its name, its arguments, and which context entries it reads (None: all)."""

    name: str
    arguments: Mapping[str, Any]
    entries: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Task:
    """An action-constrained control problem.

    `reads` lists the observation entries that make the context, each with the factor that recovers its physical value;
    `contexts` is p_S, the distribution that stands for them when a map is fitted.
    """

    name: str
    environment: str
    words: str
    formula: str
    action_dim: int
    convex: bool
    sets: tuple[SetSpec, ...]
    observation_dim: int
    reads: tuple[tuple[int, float], ...] = ()
    contexts: ContextDistribution = Uniform(0, -1.0, 1.0)  # noqa: RUF009 - frozen
    in_paper: bool = False

    @cached_property
    def constraint(self) -> AbstractConstraint:
        """The set of allowed actions C(x)."""
        from cvflows.constraints.sets import make_set

        total = len(self.reads)
        parts = []
        for spec in self.sets:
            part = make_set(spec.name, **spec.arguments)
            parts.append(part if spec.entries is None else part.reads(spec.entries, of=total))
        constraint = parts[0]
        for part in parts[1:]:
            constraint = constraint & part
        return constraint

    def context(self, observation: Any) -> np.ndarray:
        """The context of one observation or of a batch: shape (..., context_dim)."""
        observation = np.asarray(observation)
        if observation.ndim == 0 or observation.shape[-1] != self.observation_dim:
            raise ArgumentError("observation", f"shape (..., {self.observation_dim})", observation.shape)
        indices = [index for index, _ in self.reads]
        return observation[..., indices] * np.asarray([factor for _, factor in self.reads], observation.dtype)
