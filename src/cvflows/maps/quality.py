"""How good a map is: accuracy, recall, coverage, F1, mean violation, KL to uniform, calm. One alone misleads."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cvflows.constraints.contexts import ContextDistribution
from cvflows.constraints.sample import feasible_samples
from cvflows.maps.base import ActionMap, draw_latents, is_covered, log_base, support
from cvflows.maps.calm import measure_calm

FAINT = 0.01
"""Share of the uniform density below which an action does not count as covered."""


@dataclass(frozen=True)
class Quality:
    """Shares in [0, 1]; `kl` in nats, of the action density to uniform on C(x), averaged over contexts.

    `recall` is the paper's: the share of feasible actions whose latents an agent can choose. It says little about a map
    that puts nearly all of its mass into a part of the set; `covered` does: the share of feasible actions where the
    density is at least a hundredth of the uniform one. `kl` and `covered` are NaN where the sets' volumes are unknown
    (samples by Hamiltonian Monte Carlo).

    `calm` is how far actions move between contexts that allow both of them, 0 for none, over `compared` latents;
    `lipschitz` how fast they move with the context at most (see `calm.py`). None: no latent to compare, no finite
    derivative, or not measured.
    """

    accuracy: float
    recall: float
    covered: float
    f1: float
    mean_violation: float
    kl: float
    infeasible: int
    latents: int
    contexts: int
    calm: float | None = None
    lipschitz: float | None = None
    compared: int = 0


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
        """Quality with every context counted alike, whatever the volume of its set; calm is not measured."""
        x, (actions, density) = self.x, _push(map_, self.latents, self.x)
        violation = np.asarray(map_.constraint.violation(x[:, None], actions))
        inside = np.asarray(map_.constraint.contains(x[:, None], actions))
        accepted = self.feasible.accepted
        counts = accepted.sum(axis=1)
        reached, log_density = (np.asarray(value) for value in _pull(map_, self.feasible.actions, x))
        volume = self.feasible.log_volume
        seen = counts > 0

        def share(chosen: np.ndarray) -> float:
            hits = (accepted & chosen).sum(axis=1)
            return float(np.mean(hits[seen] / counts[seen])) if seen.any() else float("nan")

        recall = share(reached)
        known = np.isfinite(volume[seen]).all()
        covered = (
            share(log_density + np.where(seen, volume, 0.0)[:, None] >= math.log(FAINT)) if known else float("nan")
        )
        accuracy = float(inside.mean())
        entropy = np.asarray(density).mean(axis=1)
        return Quality(
            accuracy=accuracy,
            recall=recall,
            covered=covered,
            f1=2 * accuracy * recall / max(accuracy + recall, 1e-12),
            mean_violation=float(violation.mean()),
            kl=float(np.mean((entropy + volume)[seen])) if seen.any() else float("nan"),
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
    quality = Probe(map_, contexts, latents=latents, context_count=context_count, seed=seed)(map_)
    return replace(quality, **measure_calm(map_, contexts, seed=seed)._asdict())


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
def _pull(
    map_: ActionMap, actions: Float[Array, "contexts each dim"], x: Float[Array, "contexts _"]
) -> tuple[Array, Array]:
    """Whether the latent of each action lies where an agent can go, and the log-density of the action."""

    def judge(action: Array, x: Array) -> tuple[Array, Array]:
        latent, log_det = map_.inverse(action, x)
        covered = is_covered(map_.base, latent)
        log_density = log_base(map_.base, latent) + log_det
        return covered, log_density if map_.base == "normal" else jnp.where(covered, log_density, -jnp.inf)

    return jax.vmap(lambda row, x: jax.vmap(lambda action: judge(action, x))(row))(actions, x)
