"""What a set tells the solvers about its shape, so that they can take a fast path.

All arrays are "columns": the last axis is the batch.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class Row(eqx.Module):
    """Σ_k [q_k a_k² + s_k |a_k| + l_k a_k] ≤ bound with q, s ≥ 0.

    `quadratic`, `absolute`, `linear` hold q, s, l with shape (dim,); None stands for zeros and costs nothing.
    """

    bound: Float[Array, "*batch"]
    quadratic: Float[Array, dim * batch] | None = None
    absolute: Float[Array, dim * batch] | None = None
    linear: Float[Array, dim * batch] | None = None

    def usage(self, a: Float[Array, dim * batch]) -> Float[Array, "*batch"]:
        """Left side minus right side: ≤ 0 when the row holds."""
        terms = jnp.zeros_like(a)
        if self.quadratic is not None:
            terms = terms + self.quadratic * a * a
        if self.absolute is not None:
            terms = terms + self.absolute * jnp.abs(a)
        if self.linear is not None:
            terms = terms + self.linear * a
        return jnp.sum(terms, axis=0) - self.bound


class Separable(eqx.Module):
    """Several `Row`s. `centred`: every one is smallest at a = 0 (|l| ≤ s), so that one point minimises them all."""

    rows: tuple[Row, ...]
    centred: bool = eqx.field(static=True)


class Affine(eqx.Module):
    """Rows offset + normal·a ≤ 0, with shapes (rows,) and (rows, dim)."""

    offset: Float[Array, rows * batch]
    normal: Float[Array, "rows dim *batch"]


class Radial(eqx.Module):
    """inner ≤ ‖a‖ ≤ outer."""

    inner: float = eqx.field(static=True)
    outer: float = eqx.field(static=True)


class Total(eqx.Module):
    """|Σ a - total| ≤ margin."""

    total: Float[Array, "*batch"]
    margin: float = eqx.field(static=True)


Structure = Separable | Affine | Radial | Total | None


def merge(parts: list[Structure]) -> Structure:
    """The structure of an intersection, None when its parts do not fit one form."""
    rest = [part for part in parts if not (isinstance(part, Separable) and not part.rows)]  # boxes have no rows
    if len(rest) == 1:
        boxed = len(parts) > 1 and isinstance(rest[0], Radial)  # the shell's own solver knows the action box only
        return None if boxed else rest[0]
    if not rest:
        return parts[0]
    separable = [part for part in rest if isinstance(part, Separable)]
    affine = [part for part in rest if isinstance(part, Affine)]
    if len(rest) == len(affine):
        offset, normal = (jnp.concatenate([getattr(part, name) for part in affine]) for name in ("offset", "normal"))
        return Affine(offset, normal)
    if len(rest) == len(separable):
        rows = tuple(row for part in separable for row in part.rows)
        return Separable(rows, centred=all(part.centred for part in separable))
    return None


def as_separable(structure: Structure) -> Structure:
    """A single half-space as a separable row; anything else as it is."""
    if isinstance(structure, Affine) and structure.offset.shape[0] == 1:
        return Separable((Row(-structure.offset[0], linear=structure.normal[0]),), centred=False)
    return structure
