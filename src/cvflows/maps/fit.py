"""Fitting a map to its constraint from the violation signal alone (reverse KL), deterministic in its seed.

    J(ψ) = E_{x ~ p_S, â ~ base} [ λ·CV(f_ψ(â, x), x) - log|det ∂f_ψ/∂â| ]

For a map that is feasible by construction CV is zero and only the entropy term is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from cvflows.constraints.base import all_rows
from cvflows.constraints.contexts import ContextDistribution
from cvflows.errors import ArgumentError, dimension, positive
from cvflows.maps.base import ActionMap, draw_latents


@dataclass(frozen=True)
class FitConfig:
    """How to fit: λ grows geometrically from 1 to `penalty` over `anneal` of the steps, then stays."""

    steps: int = 3000
    batch: int = 512
    learning_rate: float = 2e-3
    penalty: float = 1000.0
    anneal: float = 0.75
    margin: float = 0.0
    gradient_clip: float = 5.0
    seed: int = 0

    def __post_init__(self) -> None:
        dimension("steps", self.steps)
        dimension("batch", self.batch)
        for name in ("learning_rate", "penalty", "gradient_clip"):
            positive(name, getattr(self, name))
        if not 0 <= self.anneal <= 1:
            raise ArgumentError("anneal", "a share in [0, 1]", self.anneal)


class Fitted(NamedTuple):
    """The fitted map, the loss at every step, and the seconds spent without compilation."""

    map: Any
    losses: np.ndarray
    seconds: float


Progress = Callable[[int, float], None]


def fit(
    map_: ActionMap,
    contexts: ContextDistribution,
    config: FitConfig | None = None,
    *,
    progress: Progress | None = None,
    chunk: int = 100,
) -> Fitted:
    """Minimise J by Adam; `progress(step, loss)` is called after every `chunk` of steps."""
    config = config or FitConfig()
    if contexts.size != map_.constraint.context_dim:
        raise ArgumentError("contexts", f"{map_.constraint.context_dim} entries, the context_dim", contexts.size)
    parameters, rest = eqx.partition(map_, eqx.is_inexact_array)
    optimiser = _optimiser(config)

    def advance(state: tuple[Any, Any], step: Array) -> tuple[tuple[Any, Any], Float[Array, ""]]:
        parameters, memory = state
        key = jax.random.fold_in(jax.random.key(config.seed), step)
        weight = config.penalty ** jnp.minimum(step / max(config.anneal * config.steps, 1.0), 1.0)

        def objective(parameters: Any) -> Float[Array, ""]:
            return reverse_kl(eqx.combine(parameters, rest), contexts, key, config, weight)

        loss, gradient = jax.value_and_grad(objective)(parameters)
        updates, memory = optimiser.update(gradient, memory, parameters)
        return (optax.apply_updates(parameters, updates), memory), loss

    run = jax.jit(lambda state, steps: jax.lax.scan(advance, state, steps))
    state = (parameters, optimiser.init(parameters))
    losses, spent = [], 0.0
    compiled = run.lower(state, jnp.arange(chunk)).compile()
    for start in range(0, config.steps - config.steps % chunk, chunk):
        began = time.perf_counter()
        state, loss = compiled(state, jnp.arange(start, start + chunk))
        losses.append(np.asarray(loss))
        spent += time.perf_counter() - began
        if not np.isfinite(losses[-1]).all():
            raise ArgumentError("constraint", "finite values and gradients", f"NaN in the loss by step {start + chunk}")
        if progress is not None:
            progress(start + chunk, float(losses[-1].mean()))
    return Fitted(eqx.combine(state[0], rest), np.concatenate(losses), spent)


def reverse_kl(
    map_: ActionMap, contexts: ContextDistribution, key: PRNGKeyArray, config: FitConfig, weight: Float[Array, ""]
) -> Float[Array, ""]:
    """J on one batch at penalty `weight`."""
    context_key, latent_key = jax.random.split(key)
    x = contexts.sample(context_key, config.batch)
    latents = draw_latents(map_.base, latent_key, config.batch, map_.constraint.action_dim)

    def sample(latent: Array, x: Array) -> Float[Array, ""]:
        action, log_det = map_.forward(latent, x)
        violation = jnp.sum(jnp.maximum(all_rows(map_.constraint, x, action) + config.margin, 0))
        return weight * violation - log_det

    return jnp.mean(jax.vmap(sample)(latents, x))


def _optimiser(config: FitConfig) -> optax.GradientTransformation:
    """Adam with a short warm-up, flat for 30 %, then cosine to zero."""
    flat, warm = int(0.3 * config.steps), min(100, config.steps // 10)
    schedule = optax.join_schedules(
        [
            optax.linear_schedule(0.0, config.learning_rate, max(warm, 1)),
            optax.constant_schedule(config.learning_rate),
            optax.cosine_decay_schedule(config.learning_rate, max(config.steps - flat, 1)),
        ],
        [warm, max(flat, warm + 1)],
    )
    return optax.chain(optax.clip_by_global_norm(config.gradient_clip), optax.adam(schedule, b2=0.99))
