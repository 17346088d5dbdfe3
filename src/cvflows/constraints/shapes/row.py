"""One separable row. Its arrays are for one context, or "columns": the last axis is the batch."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class Row(eqx.Module):
    """Σ_k [q_k a_k² + s_k |a_k| + l_k a_k] ≤ bound with q, s ≥ 0.

    `quadratic`, `absolute`, `linear` hold q, s, l with shape (dim,); None stands for zeros and costs nothing.
    """

    bound: Float[Array, "*batch"]
    quadratic: Float[Array, "dim *batch"] | None = None
    absolute: Float[Array, "dim *batch"] | None = None
    linear: Float[Array, "dim *batch"] | None = None

    @property
    def is_half_space(self) -> bool:
        """Whether the row is linear in the action."""
        return self.absolute is None and self.quadratic is None

    def usage(self, a: Float[Array, "dim *batch"]) -> Float[Array, "*batch"]:
        """Left side minus right side: ≤ 0 when the row holds."""
        terms = jnp.zeros_like(a)
        if self.quadratic is not None:
            terms = terms + self.quadratic * a * a
        if self.absolute is not None:
            terms = terms + self.absolute * jnp.abs(a)
        if self.linear is not None:
            terms = terms + self.linear * a
        return jnp.sum(terms, axis=0) - self.bound
