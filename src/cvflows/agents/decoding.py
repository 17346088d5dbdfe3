"""From what an actor puts out to an action: through a map, as it is, through a projection layer, or along a ray."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from cvflows.agents.base import Contexts, Latents, Observations, Problem, Scalars
from cvflows.agents.corrections import correct_worst, penalty
from cvflows.agents.methods import Method
from cvflows.agents.rays import alpha, radial
from cvflows.constraints.base import all_rows
from cvflows.constraints.legacy import FLOWPG, LINEAR, legacy_rows
from cvflows.constraints.project import project_actions
from cvflows.maps.base import ActionMap, support


def each(function: Callable[..., Any], *batches: Any) -> Any:
    """`function` of every sample; of a single one without a batch axis, which is faster by a third."""
    if batches[0].shape[0] == 1:
        return jax.tree.map(lambda leaf: leaf[None], function(*(batch[0] for batch in batches)))
    return jax.vmap(function)(*batches)


class Decoded(NamedTuple):
    """An action and log|det ∂a/∂â|."""

    action: Latents
    log_det: Scalars


@dataclass(frozen=True)
class Decoder:
    """From latents to actions. The map's parameters travel apart, as `frozen`, so that none is compiled in.

    Latents are clipped at ±`reach`; `unit` is what one of noise means.
    """

    method: Method
    problem: Problem
    structure: Any
    reach: float
    unit: float

    @classmethod
    def of(cls, method: Method, problem: Problem, map_: ActionMap | None) -> tuple[Decoder, Any]:
        """The decoder of a method and the frozen parameters of its map."""
        if map_ is None:
            free = method.decoder in ("alpha", "radial")
            return cls(method, problem, None, math.inf if free else 1.0, 1.0), ()
        arrays, rest = eqx.partition(map_, eqx.is_array)
        frozen, shape = jax.tree.flatten(arrays)
        reach = support(map_.base)
        return cls(method, problem, (shape, rest), reach, reach), frozen

    def map(self, frozen: list[Array]) -> ActionMap:
        """The map with its parameters. They travel as a list: to flatten a module takes Python 15 µs per call."""
        shape, rest = self.structure
        return eqx.combine(jax.tree.unflatten(shape, frozen), rest)

    @property
    def squashed(self) -> bool:
        """Whether latents are actions of the box, under a tanh."""
        return self.method.decoder in ("box", "layer")

    @property
    def normal(self) -> bool:
        """Whether the base distribution of latents is normal, not uniform."""
        return self.structure is not None and self.structure[1].base == "normal"

    def clip(self, latent: Latents) -> Latents:
        return jnp.clip(latent, -self.reach, self.reach)

    def bound(self, output: Latents) -> Latents:
        """A network's output as a latent (or its mean): within reach, smoothly."""
        return self.reach * jnp.tanh(output / self.reach) if math.isfinite(self.reach) else output

    def __call__(self, frozen: Any, latent: Latents, x: Contexts) -> Decoded:
        none, constraint = jnp.zeros(latent.shape[0]), self.problem.constraint
        match self.method.decoder:
            case "map":
                return Decoded(*each(self.map(frozen).forward, self.clip(latent), x))
            case "layer":
                return Decoded(project_actions(constraint, x, latent), none)
            case "alpha":
                return Decoded(each(lambda x, v: alpha(constraint, x, v), x, latent), none)
            case "radial":
                return Decoded(*each(lambda x, v: radial(constraint, x, v), x, latent))
        return Decoded(latent, none)

    def seen(self, frozen: Any, latent: Latents, observation: Observations) -> Latents:
        """What the critic is told of a latent that the actor may still change."""
        if self.method.critic_sees == "latent" or self.method.decoder == "box":
            return self.clip(latent)
        return self(frozen, latent, self.problem.read(observation)).action

    def seen_ahead(self, frozen: Any, latent: Latents, observation: Observations) -> Latents:
        """What the critic is told of the latent that follows: where it sees executed actions, the corrected one."""
        if self.method.critic_sees == "latent" or self.method.decoder != "box":
            return self.seen(frozen, latent, observation)
        return self.corrected(self.clip(latent), self.problem.read(observation))

    def corrected(self, action: Latents, x: Contexts) -> Latents:
        """The method's own correction of actions asked for."""
        if self.method.correction == "worst":
            return jax.vmap(lambda x, a: correct_worst(self.problem.constraint, x, a))(x, action)
        return project_actions(self.problem.constraint, x, lax.stop_gradient(action))

    def penalty(self, latent: Latents, observation: Observations) -> Scalars:
        """How far the action asked for is from being allowed."""
        x = self.problem.read(observation)
        return jax.vmap(lambda x, a: penalty(self.problem.constraint, x, a))(x, latent)


class Acted(NamedTuple):
    """Latents, their actions, and how the constraint finds them.

    `largest` is the action's largest row. `asked`, `violation`, `kasaura` and `flowpg` speak of the action asked for,
    before any projection: its largest row, the sum of its positive ones, and whether two looser tolerances of the
    literature would call it forbidden. `rejected` holds, for each environment, latents that were drawn before.
    """

    latent: Any
    action: Any
    largest: Any
    asked: Any
    violation: Any
    kasaura: Any
    flowpg: Any
    rejected: Any = None


def judged(
    decoder: Decoder, frozen: Any, latent: Latents, observation: Observations, shift: Latents | None = None
) -> Acted:
    """Decode latents, shift the actions by some noise, and look whether they are allowed."""
    constraint, x = decoder.problem.constraint, decoder.problem.read(observation)
    action = decoder(frozen, latent, x).action
    if shift is not None:
        action = jnp.clip(action + shift, -1, 1)
    asked = latent if decoder.squashed else action
    if decoder.method.correction == "worst":
        action = decoder.corrected(action, x)

    def rows_of(action: Latents) -> Any:
        return each(lambda x, a: all_rows(constraint, x, a), x, action)

    rows = rows_of(asked)
    units, limits = legacy_rows(constraint)
    box = np.ones(constraint.action_dim)
    raw = rows * np.concatenate([units, box])[None]
    return Acted(
        decoder.clip(latent),
        action,
        jnp.max(rows if action is asked else rows_of(action), axis=1),
        jnp.max(rows, axis=1),
        jnp.sum(jnp.maximum(rows, 0), axis=1),
        jnp.any(raw > np.concatenate([limits, LINEAR * box])[None], axis=1),
        jnp.sum(jnp.maximum(raw, 0), axis=1) > FLOWPG,
    )
