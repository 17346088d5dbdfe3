"""Union: the actions that at least one of several sets allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from cvflows.constraints.base import AbstractConstraint, Composed, Vector
from cvflows.constraints.columns import own_context
from cvflows.errors import ArgumentError


@dataclass(frozen=True, init=False)
class Union(Composed):
    """C(x) = C₁(x) ∪ C₂(x) ∪ …, for sets in several pieces: `cv.Union(left, right)`.

    One row, the smallest over the parts of the part's largest: min_k max_j g_kj(x,a). Projection and maximiser take the
    best of the parts' own, so they are exact where those are. `&` and `reads` apply to every part.
    """

    parts: tuple[AbstractConstraint, ...]
    convex: ClassVar[bool] = False
    distributes: ClassVar[bool] = True

    def __init__(self, *parts: AbstractConstraint) -> None:
        flat: list[AbstractConstraint] = []
        for part in parts:
            if not isinstance(part, AbstractConstraint):
                raise ArgumentError("parts", "sets of actions", type(part).__name__)
            flat += part.parts if isinstance(part, Union) else [part]
        if not flat:
            raise ArgumentError("parts", "at least one set", "none")
        object.__setattr__(self, "parts", tuple(flat))
        self.check_parts("parts")

    @property
    def alternatives(self) -> tuple[AbstractConstraint, ...]:
        return self.parts

    def part_rows(self, x: Vector, a: Vector) -> Vector:
        """The largest row of every part."""
        worst = [jnp.max(part.rows(own_context(part, x), a), initial=-1.0) for part in self.parts]
        return jnp.stack(worst)

    def rows(self, x: Vector, a: Vector) -> Vector:
        return jnp.min(self.part_rows(x, a), axis=0, keepdims=True)

    def bounds(self, x: Vector) -> tuple[Vector, Vector]:
        lows, highs = zip(*(part.bounds(own_context(part, x)) for part in self.parts), strict=True)
        return jnp.min(jnp.stack(lows), axis=0), jnp.max(jnp.stack(highs), axis=0)

    def centre(self, x: Vector) -> Vector:
        """The centre of the part that has its own deepest inside."""
        centres = jnp.stack([part.centre(own_context(part, x)) for part in self.parts])
        rows = [part.rows(own_context(part, x), centres[k]) for k, part in enumerate(self.parts)]
        return centres[jnp.argmin(jnp.stack([jnp.max(row, initial=-1.0) for row in rows]))]

    def reads(self, indices: Sequence[int], of: int) -> AbstractConstraint:
        if len(indices) != self.context_dim:
            raise ArgumentError("indices", f"{self.context_dim} entries, the context_dim", len(indices))
        return Union(*(part.reads(indices if part.context_dim else (), of) for part in self.parts))

    def __and__(self, other: AbstractConstraint) -> AbstractConstraint:
        if not isinstance(other, AbstractConstraint):
            return NotImplemented
        others = other.parts if isinstance(other, Union) else (other,)
        return Union(*(part & one for part in self.parts for one in others))

    def __rand__(self, other: AbstractConstraint) -> AbstractConstraint:
        return Union(*(other & part for part in self.parts))
