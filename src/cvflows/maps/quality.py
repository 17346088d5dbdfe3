"""How good a map is: accuracy, recall, F1, mean violation, KL to uniform. Report them together: one alone misleads."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cvflows.constraints.contexts import ContextDistribution
from cvflows.constraints.sample import rejection_samples
from cvflows.maps.base import CLIP, ActionMap, draw_latents, is_covered, log_base


@dataclass(frozen=True)
class Quality:
    """Shares in [0, 1]; `kl` in nats, of the action density to uniform on C(x), averaged over contexts."""

    accuracy: float
    recall: float
    f1: float
    mean_violation: float
    kl: float
    infeasible: int
    latents: int
    contexts: int


def measure(
    map_: ActionMap,
    contexts: ContextDistribution,
    *,
    latents: int = 131_072,
    context_count: int = 256,
    seed: int = 1,
) -> Quality:
    """Quality over contexts drawn from p_S, every context counted alike whatever the volume of its set."""
    keys = jax.random.split(jax.random.key(seed), 3)
    x = contexts.sample(keys[0], context_count)
    each = -(-latents // context_count)
    draws = draw_latents(map_.base, keys[1], context_count * each, map_.constraint.action_dim)
    draws = draws.reshape(context_count, each, -1)
    actions, density = _push(map_, draws, x)
    violation = np.asarray(map_.constraint.violation(x[:, None], actions))
    inside = np.asarray(map_.constraint.contains(x[:, None], actions))
    feasible = rejection_samples(map_.constraint, x, keys[2])
    covered = np.asarray(_pull(map_, feasible.actions, x))
    hits = np.where(feasible.accepted, covered, 0).sum(axis=1)
    counts = feasible.accepted.sum(axis=1)
    recall = float(np.mean((hits / np.maximum(counts, 1))[counts > 0]))
    accuracy = float(inside.mean())
    return Quality(
        accuracy=accuracy,
        recall=recall,
        f1=2 * accuracy * recall / max(accuracy + recall, 1e-12),
        mean_violation=float(violation.mean()),
        kl=float(np.mean((np.asarray(density).mean(axis=1) + feasible.log_volume)[counts > 0])),
        infeasible=int((~inside).sum()),
        latents=inside.size,
        contexts=context_count,
    )


@eqx.filter_jit
def _push(
    map_: ActionMap, latents: Float[Array, "contexts each dim"], x: Float[Array, "contexts _"]
) -> tuple[Float[Array, "contexts each dim"], Float[Array, "contexts each"]]:
    """Actions of the latents, clipped as an agent clips them, and their log-density without the clip."""

    def sample(latent: Array, x: Array) -> tuple[Array, Array]:
        clipped = jnp.clip(latent, -CLIP, CLIP) if map_.base == "normal" else latent
        return map_.forward(clipped, x)[0], log_base(map_.base, latent) - map_.forward(latent, x)[1]

    return jax.vmap(lambda row, x: jax.vmap(lambda latent: sample(latent, x))(row))(latents, x)


@eqx.filter_jit
def _pull(map_: ActionMap, actions: Float[Array, "contexts each dim"], x: Float[Array, "contexts _"]) -> Array:
    """Whether the latent of each action lies where an agent can go."""

    def covered(action: Array, x: Array) -> Array:
        return is_covered(map_.base, map_.inverse(action, x)[0])

    return jax.vmap(lambda row, x: jax.vmap(lambda action: covered(action, x))(row))(actions, x)
