"""Small linear systems in columns (batch last), unrolled: a batched LAPACK call costs more than the arithmetic."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

UNROLLED = 10
"""Largest system that is unrolled; larger ones go to the library's Cholesky solver."""


Factor = list[list[Array]] | Array


def solve_positive(matrix: Float[Array, "n n batch"], right: Float[Array, "n batch"]) -> Float[Array, "n batch"]:
    """x with matrix·x = right, for symmetric positive definite matrices."""
    return solve_factored(factorise(matrix), right)


def factorise(matrix: Float[Array, "n n batch"]) -> Factor:
    """Cholesky factor, to be handed to `solve_factored`: rows of entries, 1/L_ii on the diagonal, when unrolled."""
    n = matrix.shape[0]
    if n > UNROLLED:
        return jnp.linalg.cholesky(jnp.moveaxis(matrix, -1, 0))
    noise = np.finfo(matrix.dtype).eps
    rows: list[list[Array]] = []
    for i in range(n):
        row: list[Array] = []
        for j in range(i):
            total = matrix[i, j]
            for k in range(j):
                total = total - row[k] * rows[j][k]
            row.append(total * rows[j][j])
        pivot = matrix[i, i]
        for value in row:
            pivot = pivot - value * value
        least = noise * jnp.abs(matrix[i, i]) + 1e-30  # what rounding leaves of a singular matrix
        rows.append([*row, jax.lax.rsqrt(jnp.maximum(pivot, least))])
    return rows


def solve_factored(factor: Factor, right: Float[Array, "n batch"]) -> Float[Array, "n batch"]:
    """Forward and back substitution with a factor from `factorise`."""
    n = right.shape[0]
    if n > UNROLLED:
        return jax.vmap(lambda lower, b: jax.scipy.linalg.cho_solve((lower, True), b))(factor, right.T).T
    values = [right[i] for i in range(n)]
    for i in range(n):
        for k in range(i):
            values[i] = values[i] - factor[i][k] * values[k]
        values[i] = values[i] * factor[i][i]
    for i in reversed(range(n)):
        for k in range(i + 1, n):
            values[i] = values[i] - factor[k][i] * values[k]
        values[i] = values[i] * factor[i][i]
    return jnp.stack(values)
