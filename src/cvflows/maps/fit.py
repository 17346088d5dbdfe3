"""Fitting a map: from the violation signal alone (reverse KL), or to feasible samples (maximum likelihood).

    fit:            J(ψ) = E_{x ~ p_S, â ~ base} [ λ·CV(f_ψ(â, x), x) - log|det ∂f_ψ/∂â| + β·‖f_ψ(â, x) - box(â)‖² ]
    fit_to_samples: J(ψ) = -E_{x, a feasible} [ log base(f_ψ⁻¹(a, x)) + log|det ∂f_ψ⁻¹/∂a| ]

For a map that is feasible by construction CV is zero and only the other terms are left. β is 0 unless asked for; box(â)
is the latent as a point of the action box, the same in every context: actions near it move little. Both fits are
deterministic in the seed, and run in jitted blocks of steps between which progress is told and the map may be checked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from cvflows.constraints.base import all_rows
from cvflows.constraints.contexts import ContextDistribution
from cvflows.errors import ArgumentError, ConstraintFunctionError, dimension, positive, within
from cvflows.maps.base import ActionMap, draw_latents, log_base, to_box
from cvflows.maps.checks import check_fittable
from cvflows.maps.penalty import penalty_for_leak
from cvflows.maps.quality import Probe

BLOCK = 50
"""Steps between two looks at the outside world."""
MOST_TRANSPORT = 1e4
"""Entropy is a few nats and the transport at most 4 per entry: beyond, nothing else counts."""


@dataclass(frozen=True)
class FitConfig:
    """How to fit.

    - `penalty`: λ in the end; None derives it from the set, see `penalty.py`. It grows geometrically from 1 over
      `anneal` of the steps, or is constant when `anneal` is 0.
    - `margin`: how much smaller than C(x) the trained set is, in units of its rows.
    - `transport`: β, how much the map pays for moving a latent away from its place in the action box; 0 is the paper's.
    - `decay`: warm-up, then flat for 30 % of the steps, then cosine to 0; False keeps the rate.
    - `check_every`: steps between checks of accuracy and recall, 0 for none; with `target_accuracy` and `target_recall`
      training ends as soon as both hold.
    - `allow_empty`: share of contexts that may leave no action.
    """

    steps: int = 3000
    batch: int = 512
    learning_rate: float = 5e-3
    penalty: float | None = None
    anneal: float = 0.75
    margin: float = 0.0
    gradient_clip: float = 5.0
    decay: bool = True
    check_every: int = 0
    target_accuracy: float | None = None
    target_recall: float | None = None
    allow_empty: float = 0.0
    seed: int = 0
    transport: float = 0.0

    def __post_init__(self) -> None:
        dimension("steps", self.steps)
        dimension("batch", self.batch)
        dimension("check_every", self.check_every, least=0)
        for name in ("learning_rate", "gradient_clip"):
            positive(name, getattr(self, name))
        if self.penalty is not None:
            positive("penalty", self.penalty)
        for name in ("anneal", "margin", "target_accuracy", "target_recall", "allow_empty"):
            if getattr(self, name) is not None:
                within(name, getattr(self, name), 0, 1)
        within("transport", self.transport, 0, MOST_TRANSPORT)
        dimension("seed", self.seed, least=0, most=2**32 - 1)
        if (self.target_accuracy or self.target_recall) and not self.check_every:
            raise ArgumentError("check_every", "at least 1 when a target is set", self.check_every)

    @classmethod
    def paper(cls, **changes: object) -> FitConfig:
        """The paper's: constant λ = 1000, Adam at 1e-5 without decay, batches of 256, gradients clipped at 0.1."""
        make: Callable[..., FitConfig] = cls
        settings = {
            "steps": 500_000,
            "batch": 256,
            "learning_rate": 1e-5,
            "penalty": 1000.0,
            "anneal": 0.0,
            "gradient_clip": 0.1,
            "decay": False,
        }
        return make(**{**settings, **changes})


class Check(NamedTuple):
    """What a check during the fit saw."""

    step: int
    loss: float
    accuracy: float
    recall: float


class Fitted(NamedTuple):
    """The fitted map, the loss at every step, the checks, seconds spent without compilation, the λ used."""

    map: ActionMap
    losses: np.ndarray
    checks: tuple[Check, ...]
    seconds: float
    penalty: float

    @property
    def steps(self) -> int:
        """Gradient steps taken: fewer than asked for when the targets were met early."""
        return len(self.losses)


logger = logging.getLogger(__name__)
Progress = Callable[[int, float, Check | None], None]
Objective = Callable[[ActionMap, PRNGKeyArray, Float[Array, ""]], Float[Array, ""]]
State = tuple[PyTree, PyTree]
"""Parameters, and what the optimiser remembers."""


def fit(
    map_: ActionMap,
    contexts: ContextDistribution,
    config: FitConfig | None = None,
    *,
    progress: Progress | None = None,
) -> Fitted:
    """Minimise the reverse KL; `progress(step, loss, last_check)` is called after every block of steps."""
    config = config or FitConfig()
    check_fittable(map_, contexts, allow_empty=config.allow_empty)
    if config.penalty is None:
        penalty = 1.0 if map_.certified else penalty_for_leak(map_.constraint, contexts, map_.leak)
        config = replace(config, penalty=penalty)

    def objective(map_: ActionMap, key: PRNGKeyArray, weight: Float[Array, ""]) -> Float[Array, ""]:
        return reverse_kl(map_, contexts, key, config, weight)

    return _descend(map_, objective, contexts, config, progress)


def fit_to_samples(
    map_: ActionMap,
    contexts: ContextDistribution,
    samples: tuple[Float[Array, "count context"], Float[Array, "count dim"]],
    config: FitConfig | None = None,
    *,
    progress: Progress | None = None,
) -> Fitted:
    """Maximise the likelihood of feasible pairs (x, a), drawn in batches; a uniform base is softened as FlowPG does."""
    config = replace(config or FitConfig(), penalty=1.0)
    if config.transport:
        raise ArgumentError("transport", "0 for a fit to samples", config.transport)
    x, actions = (jnp.asarray(array) for array in samples)

    def objective(map_: ActionMap, key: PRNGKeyArray, weight: Float[Array, ""]) -> Float[Array, ""]:
        chosen = jax.random.randint(key, (config.batch,), 0, len(x))
        return -jnp.mean(jax.vmap(lambda a, x: _log_likelihood(map_, a, x))(actions[chosen], x[chosen]))

    return _descend(map_, objective, contexts, config, progress)


def reverse_kl(
    map_: ActionMap, contexts: ContextDistribution, key: PRNGKeyArray, config: FitConfig, weight: Float[Array, ""]
) -> Float[Array, ""]:
    """J on one batch at penalty `weight`."""
    context_key, latent_key = jax.random.split(key)
    x = contexts.sample(context_key, config.batch)
    latents = draw_latents(map_.base, latent_key, config.batch, map_.constraint.action_dim)

    def sample(latent: Array, x: Array) -> Float[Array, ""]:
        action, log_det = map_.forward(latent, x)
        cost = -log_det
        if config.transport:
            cost = cost + config.transport * jnp.sum((action - to_box(map_.base, latent)[0]) ** 2)
        if map_.certified:
            return cost
        violation = jnp.sum(jnp.maximum(all_rows(map_.constraint, x, action) + config.margin, 0))
        return weight * violation + cost

    return jnp.mean(jax.vmap(sample)(latents, x))


def _log_likelihood(map_: ActionMap, action: Array, x: Array) -> Float[Array, ""]:
    latent, log_det = map_.inverse(action, x)
    if map_.base == "uniform":
        outside = jnp.sum(jnp.maximum(jnp.abs(latent) - 1, 0))
        return log_det - outside / 1e-4  # FlowPG's mollified box: log-density falls steeply outside
    return log_base(map_.base, latent) + log_det


def _descend(
    map_: ActionMap,
    objective: Objective,
    contexts: ContextDistribution,
    config: FitConfig,
    progress: Progress | None,
) -> Fitted:
    """Adam on `objective(map, key, λ)`, block after block."""
    parameters, rest = eqx.partition(map_, eqx.is_inexact_array)
    optimiser = _optimiser(config)
    penalty = config.penalty or 1.0

    def advance(root: Array, state: State, step: Array) -> tuple[State, Float[Array, ""]]:
        parameters, memory = state
        key = jax.random.fold_in(root, step)
        grown = jnp.minimum(step / (config.anneal * config.steps), 1.0) if config.anneal else 1.0
        weight = jnp.asarray(penalty**grown)
        loss, gradient = jax.value_and_grad(lambda p: objective(eqx.combine(p, rest), key, weight))(parameters)
        updates, memory = optimiser.update(gradient, memory, parameters)
        return (optax.apply_updates(parameters, updates), memory), loss

    def run_block(root: Array, state: State, steps: Array) -> tuple[State, Array]:
        return jax.lax.scan(partial(advance, root), state, steps)

    root = jax.random.key(config.seed)  # an argument, so that seeds share a compilation cache
    state, compiled = (parameters, optimiser.init(parameters)), {}
    learns = bool(jax.tree.leaves(parameters))
    probe = Probe(map_, contexts, latents=16_384, context_count=64) if learns and config.check_every else None
    losses: list[np.ndarray] = []
    checks: list[Check] = []
    spent, step = 0.0, 0
    while learns and step < config.steps:
        stop = min(step + BLOCK, config.steps, _next(step, config.check_every))
        if stop - step not in compiled:
            compiled[stop - step] = jax.jit(run_block).lower(root, state, jnp.arange(step, stop)).compile()
        began = time.perf_counter()
        state, loss = compiled[stop - step](root, state, jnp.arange(step, stop))
        losses.append(np.asarray(loss))
        spent += time.perf_counter() - began
        step = stop
        if not np.isfinite(losses[-1]).all():
            raise ConstraintFunctionError(
                f"the loss became NaN by step {step}: the map or its constraint gives no finite value or gradient there"
            )
        if probe is not None and step % config.check_every == 0:
            seen = probe(eqx.combine(state[0], rest))
            checks.append(Check(step, float(losses[-1].mean()), seen.accuracy, seen.recall))
            logger.debug("%s", checks[-1])
        if progress is not None:
            progress(step, float(losses[-1].mean()), checks[-1] if checks else None)
        if checks and checks[-1].step == step and _reached(checks[-1], config):
            break
    done = np.concatenate(losses) if losses else np.zeros(0)
    logger.info("fitted %s: %d steps in %.1f s", type(map_).__name__, len(done), spent)
    return Fitted(eqx.combine(state[0], rest), done, tuple(checks), spent, penalty)


def _next(step: int, every: int) -> int:
    """The next step at which a check is due."""
    return (step // every + 1) * every if every else 10**9


def _reached(check: Check, config: FitConfig) -> bool:
    targets = (config.target_accuracy, check.accuracy), (config.target_recall, check.recall)
    asked = [(target, value) for target, value in targets if target is not None]
    return bool(asked) and all(value >= target for target, value in asked)


def _optimiser(config: FitConfig) -> optax.GradientTransformation:
    """Adam with clipped gradients and, unless `decay` is off, a short warm-up, a plateau and a cosine to zero."""
    schedule: float | optax.Schedule = config.learning_rate
    if config.decay:
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
