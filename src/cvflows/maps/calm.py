"""How calm a map is: how far actions move with the context although they need not, and how fast they move at most.

    calm      = E_{z ~ base; x, x' ~ p_S} [ ‖f(z,x') - f(z,x)‖/√d  where both actions are allowed in both contexts ]
    lipschitz = max_{z, x} ‖∂f/∂x(z,x) · diag(σ)‖₂/√d,   σ_j the standard deviation of entry j of x under p_S

Latents are clipped as an agent clips them. `calm` is 0 for a map that leaves an allowed action alone and draws any
other to the boundary along its ray: where the two actions of a latent differ, the set of one context ends before the
other's action. It is about what a map could avoid, and says nothing of latents whose actions must differ.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cvflows.constraints.contexts import ContextDistribution
from cvflows.maps.base import ActionMap, draw_latents, support

PAIRS = 16_384
"""Latents, each with a pair of contexts."""
SLOPES = 2_048
"""How many of them are differentiated."""


class Calm(NamedTuple):
    """`calm` and `lipschitz` as above; `compared` latents have both actions allowed in both contexts.

    `calm` is None where none of them has, `lipschitz` where a derivative is not finite.
    """

    calm: float | None
    lipschitz: float | None
    compared: int


def measure_calm(map_: ActionMap, contexts: ContextDistribution, *, seed: int = 1) -> Calm:
    """How calm a map is over pairs of contexts drawn from p_S; without contexts nothing moves, and both are 0.

    `lipschitz` is the largest slope that was seen: a lower bound, which grows with the samples where slopes have no
    bound. Jumps are not seen, nor is an inner point that a map searches for, which is held fixed when differentiated.
    """
    if not contexts.size:
        return Calm(0.0, 0.0, 0)
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 1), 3)
    x, other = (contexts.sample(key, PAIRS) for key in keys[:2])
    limit = support(map_.base)
    latents = jnp.clip(draw_latents(map_.base, keys[2], PAIRS, map_.constraint.action_dim), -limit, limit)
    actions, moved = _act(map_, latents, jnp.stack([x, other]))
    held = jnp.stack([map_.constraint.contains(at, action) for at in (x, other) for action in (actions, moved)])
    compared = np.asarray(jnp.all(held, axis=0))
    distance = np.sqrt(np.mean(np.square(np.asarray(moved) - np.asarray(actions)), axis=-1))
    slopes = np.asarray(context_slopes(map_, latents[:SLOPES], x[:SLOPES]))
    return Calm(
        calm=float(distance[compared].mean()) if compared.any() else None,
        lipschitz=_largest(slopes, np.std(np.asarray(x), axis=0)) if np.isfinite(slopes).all() else None,
        compared=int(compared.sum()),
    )


def _largest(slopes: np.ndarray, scale: np.ndarray) -> float:
    """The largest ‖slope·diag(scale)‖₂/√dim of slopes (count, dim, context)."""
    return float(np.linalg.norm(slopes * scale, 2, axis=(-2, -1)).max() / np.sqrt(slopes.shape[1]))


@eqx.filter_jit
def _act(
    map_: ActionMap, latents: Float[Array, "count dim"], x: Float[Array, "pair count _"]
) -> Float[Array, "pair count dim"]:
    """Actions of the latents in each of their contexts."""
    return jax.vmap(lambda at: jax.vmap(lambda latent, x: map_.forward(latent, x)[0])(latents, at))(x)


@eqx.filter_jit
def context_slopes(
    map_: ActionMap, latents: Float[Array, "count dim"], x: Float[Array, "count context"]
) -> Float[Array, "count dim context"]:
    """∂f/∂x, forward mode: compiled in half the time of reverse mode, and solvers' loops allow it."""

    def slope(latent: Array, x: Array) -> Float[Array, "dim context"]:
        return jax.jacfwd(lambda x: map_.forward(latent, x)[0])(x)

    return jax.vmap(slope)(latents, x)
