"""Batches: samples of any batch shape flattened and given their shape back, columns solved a chunk at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from cvflows.constraints.arrays import Columns, Contexts

Out = TypeVar("Out")
CHUNK = 64
"""Samples that the iterative methods solve together."""


def in_batch(solve: Callable[[Array, Array], Out], x: Array, a: Array) -> Out:
    """`solve` on the broadcast samples flattened to (n, _), its outputs given the batch shape again."""
    batch = jnp.broadcast_shapes(x.shape[:-1], a.shape[:-1])
    n = math.prod(batch)
    flat = [jnp.broadcast_to(array, (*batch, array.shape[-1])).reshape(n, array.shape[-1]) for array in (x, a)]
    return jax.tree.map(lambda leaf: leaf.reshape(*batch, *leaf.shape[1:]), solve(*flat))


def in_chunks(solve: Callable[[Contexts, Columns], Out], x: Contexts, a: Columns, *, iterative: bool) -> Out:
    """`solve(x, a)`, a chunk of columns at a time when it is `iterative`."""
    count = a.shape[1]
    if not iterative or count <= CHUNK:
        return solve(x, a)
    padding = -count % CHUNK

    def split(columns: Array) -> Array:
        padded = jnp.pad(columns, ((0, 0), (0, padding)), mode="edge")
        return jnp.moveaxis(padded.reshape(len(columns), (count + padding) // CHUNK, CHUNK), 1, 0)

    def join(chunks: Array) -> Array:
        return jnp.moveaxis(chunks, 0, -2).reshape(*chunks.shape[1:-1], -1)[..., :count]

    return jax.tree.map(join, lax.map(lambda pair: solve(*pair), (split(x), split(a))))
