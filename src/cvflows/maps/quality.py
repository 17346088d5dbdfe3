"""How good a map is: accuracy, recall, F1, mean violation, KL to uniform. Report them together: one alone misleads."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cvflows.constraints.contexts import ContextDistribution
from cvflows.constraints.sample import feasible_samples
from cvflows.maps.base import ActionMap, draw_latents, is_covered, log_base, support


@dataclass(frozen=True)
class Quality:
    """Shares in [0, 1]; `kl` in nats, of the action density to uniform on C(x), averaged over contexts.

    `kl` is NaN where the sets' volumes are unknown (samples by Hamiltonian Monte Carlo).
    """

    accuracy: float
    recall: float
    f1: float
    mean_violation: float
    kl: float
    infeasible: int
    latents: int
    contexts: int


class Probe:
    """Latents and feasible actions, drawn once, on which maps of one constraint and base are measured."""

    def __init__(
        self, map_: ActionMap, contexts: ContextDistribution, *, latents: int, context_count: int, seed: int = 1
    ) -> None:
        keys = jax.random.split(jax.random.key(seed), 3)
        self.x = contexts.sample(keys[0], context_count)
        each = -(-latents // context_count)
        draws = draw_latents(map_.base, keys[1], context_count * each, map_.constraint.action_dim)
        self.latents = draws.reshape(context_count, each, -1)
        self.feasible = feasible_samples(map_.constraint, self.x, keys[2]).first(each)

    def __call__(self, map_: ActionMap) -> Quality:
        """Quality with every context counted alike, whatever the volume of its set."""
        x, (actions, density) = self.x, _push(map_, self.latents, self.x)
        violation = np.asarray(map_.constraint.violation(x[:, None], actions))
        inside = np.asarray(map_.constraint.contains(x[:, None], actions))
        accepted = self.feasible.accepted
        counts = accepted.sum(axis=1)
        hits = np.where(accepted, np.asarray(_pull(map_, self.feasible.actions, x)), 0).sum(axis=1)
        seen = counts > 0
        recall = float(np.mean(hits[seen] / counts[seen])) if seen.any() else float("nan")
        accuracy = float(inside.mean())
        entropy = np.asarray(density).mean(axis=1)
        return Quality(
            accuracy=accuracy,
            recall=recall,
            f1=2 * accuracy * recall / max(accuracy + recall, 1e-12),
            mean_violation=float(violation.mean()),
            kl=float(np.mean((entropy + self.feasible.log_volume)[seen])) if seen.any() else float("nan"),
            infeasible=int((~inside).sum()),
            latents=inside.size,
            contexts=len(x),
        )


def measure(
    map_: ActionMap,
    contexts: ContextDistribution,
    *,
    latents: int = 131_072,
    context_count: int = 256,
    seed: int = 1,
) -> Quality:
    """Quality of one map over contexts drawn from p_S."""
    return Probe(map_, contexts, latents=latents, context_count=context_count, seed=seed)(map_)


@eqx.filter_jit
def _push(
    map_: ActionMap, latents: Float[Array, "contexts each dim"], x: Float[Array, "contexts _"]
) -> tuple[Float[Array, "contexts each dim"], Float[Array, "contexts each"]]:
    """Actions of the latents, clipped as an agent clips them, and their log-density without the clip."""

    def sample(latent: Array, x: Array) -> tuple[Array, Array]:
        clipped = jnp.clip(latent, -support(map_.base), support(map_.base))
        actions, log_dets = jax.vmap(lambda z: map_.forward(z, x))(jnp.stack([clipped, latent]))
        return actions[0], log_base(map_.base, latent) - log_dets[1]

    return jax.vmap(lambda row, x: jax.vmap(lambda latent: sample(latent, x))(row))(latents, x)


@eqx.filter_jit
def _pull(map_: ActionMap, actions: Float[Array, "contexts each dim"], x: Float[Array, "contexts _"]) -> Array:
    """Whether the latent of each action lies where an agent can go."""

    def covered(action: Array, x: Array) -> Array:
        return is_covered(map_.base, map_.inverse(action, x)[0])

    return jax.vmap(lambda row, x: jax.vmap(lambda action: covered(action, x))(row))(actions, x)
