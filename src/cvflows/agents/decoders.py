"""Decoders: from what an actor puts out to an action, and what the density of that action is.

| decoder | action | latent |
|---|---|---|
| `MapDecoder` | f(â, x) of a fitted map | clipped at ±3, or in the box for a uniform base |
| `BoxDecoder` | the latent itself, corrected if it is forbidden | in [-1,1], by tanh |
| `ClipDecoder` | the latent clipped at ±1, projected if it is forbidden | free |
| `LayerDecoder` | the latent projected, with the projection's gradient | in [-1,1], by tanh |
| `AlphaDecoder` | the latent, or where its ray leaves the set | free |
| `RadialDecoder` | the latent squashed along its ray | free |
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from cvflows.agents.corrections import correct_worst, penalty
from cvflows.agents.problem import Acted, Contexts, Latents, Observations, Problem, Scalars
from cvflows.agents.squash import alpha, alpha_log_density, radial
from cvflows.constraints.base import all_rows
from cvflows.constraints.legacy_metric import FLOWPG, LINEAR
from cvflows.constraints.project import project_actions
from cvflows.errors import ArgumentError
from cvflows.maps.base import ActionMap, Base, support

Frozen = list[Array]
"""Parameters of a map: they travel apart from the decoder, so that none is compiled in."""


def each(function: Callable[..., Any], *batches: Array) -> Any:
    """`function` of every sample; of a single one without a batch axis, which is faster by a third."""
    if batches[0].shape[0] == 1:
        return jax.tree.map(lambda leaf: leaf[None], function(*(batch[0] for batch in batches)))
    return jax.vmap(function)(*batches)


def normal_log_density(noise: Latents, log_std: Latents) -> Scalars:
    """log N(m + e^log_std·noise; m, e^log_std), summed over the entries."""
    return -jnp.sum(noise**2 / 2 + log_std, axis=1) - noise.shape[1] * math.log(2 * math.pi) / 2


class Drawn(NamedTuple):
    """Latents drawn from a diagonal Gaussian, its mean and log-deviations, and their log-density."""

    latent: Latents
    mean: Latents
    log_std: Latents
    density: Scalars


class Decoded(NamedTuple):
    """An action and log|det ∂a/∂â|."""

    action: Latents
    log_det: Scalars


@dataclass(frozen=True)
class Decoder(abc.ABC):
    """How latents become actions."""

    problem: Problem
    needs_map: ClassVar[bool] = False
    squashed: ClassVar[bool] = False
    """Whether latents are actions of the box, under a tanh."""
    unused: ClassVar[tuple[str, ...]] = ("entropy",)
    """Settings that would do nothing, and are refused."""

    @property
    def reach(self) -> float:
        """Where latents are clipped."""
        return math.inf

    @property
    def unit(self) -> float:
        """What one of noise means."""
        return 1.0

    @classmethod
    def make(cls, problem: Problem, map_: ActionMap | None, **options: str) -> tuple[Decoder, Frozen]:
        """The decoder and its frozen parameters."""
        if map_ is not None:
            raise ArgumentError("map_", f"None: a {cls.__name__} has no map", type(map_).__name__)
        return cls(problem, **options), []

    @abc.abstractmethod
    def decode(self, frozen: Frozen, latent: Latents, x: Contexts) -> Decoded:
        """Actions of latents at contexts."""

    def clip(self, latent: Latents) -> Latents:
        return jnp.clip(latent, -self.reach, self.reach)

    def bound(self, output: Latents) -> Latents:
        """A network's output as a latent (or its mean): within reach, smoothly."""
        return self.reach * jnp.tanh(output / self.reach) if math.isfinite(self.reach) else output

    def mean(self, output: Latents) -> Latents:
        """A Gaussian policy's mean, before it is squashed."""
        return output if self.squashed else self.bound(output)

    def sample(
        self, frozen: Frozen, mean: Latents, log_std: Latents, noise: Latents, x: Contexts, entropy: str
    ) -> tuple[Latents, Scalars]:
        """Latents around a mean, and what stands for log π: log of the density of what is executed, or relative to it.

        `entropy` matters for maps only.
        """
        drawn = Drawn(mean + jnp.exp(log_std) * noise, mean, log_std, normal_log_density(noise, log_std))
        if self.squashed:
            z = drawn.latent
            squashing = 2 * (jnp.log(2.0) - z - jax.nn.softplus(-2 * z))  # log(1 - tanh²), without cancellation
            return jnp.tanh(z), drawn.density - jnp.sum(squashing, axis=1)
        return drawn.latent, self._log_density(frozen, drawn, x, entropy)

    def _log_density(self, frozen: Frozen, drawn: Drawn, x: Contexts, entropy: str) -> Scalars:
        """log π of unsquashed latents, from their log-density."""
        return drawn.density - self.decode(frozen, drawn.latent, x).log_det

    def deterministic(self, mean: Latents) -> Latents:
        """The latent of a mean."""
        return jnp.tanh(mean) if self.squashed else mean

    def random(self, noise: Latents) -> Latents:
        """Latents for random actions, from standard normal noise: uniform on [-1,1]."""
        return jax.scipy.special.erf(noise / jnp.sqrt(2.0))

    def seen(self, frozen: Frozen, latent: Latents, observation: Observations, critic: str) -> Latents:
        """What a critic, of the `latent` or of the `executed` action, is told of the actor's latents."""
        if critic == "latent":
            return self.clip(latent)
        return self.decode(frozen, latent, self.problem.read(observation)).action

    def seen_next(self, frozen: Frozen, latent: Latents, observation: Observations, critic: str) -> Latents:
        """What it is told of the latents of the next observation, in its target."""
        return self.seen(frozen, latent, observation, critic)

    def corrected(self, action: Latents, x: Contexts) -> Latents:
        """What is executed in place of actions that may be forbidden."""
        return project_actions(self.problem.constraint, x, lax.stop_gradient(action))

    def penalty(self, latent: Latents, observation: Observations) -> Scalars:
        """How far the action asked for is from being allowed."""
        x = self.problem.read(observation)
        return jax.vmap(lambda x, a: penalty(self.problem.constraint, x, a))(x, latent)

    def act(self, frozen: Frozen, latent: Latents, observation: Observations, shift: Latents | None = None) -> Acted:
        """Decode latents, shift the actions by some noise, and look whether they are allowed."""
        constraint, x = self.problem.constraint, self.problem.read(observation)
        action = self.decode(frozen, latent, x).action
        if shift is not None:
            action = jnp.clip(action + shift, -1, 1)
        asked = latent if self.squashed else action
        action = self._executed(action, x)

        def rows_of(action: Latents) -> Array:
            return each(lambda x, a: all_rows(constraint, x, a), x, action)

        rows = rows_of(asked)
        units, limits = constraint.legacy_rows()
        box = np.ones(constraint.action_dim)
        raw = rows * np.concatenate([units, box])[None]
        return Acted(
            latent,
            action,
            jnp.max(rows if action is asked else rows_of(action), axis=1),
            jnp.max(rows, axis=1),
            jnp.sum(jnp.maximum(rows, 0), axis=1),
            jnp.any(raw > np.concatenate([limits, LINEAR * box])[None], axis=1),
            jnp.sum(jnp.maximum(raw, 0), axis=1) > FLOWPG,
        )

    def _executed(self, action: Latents, x: Contexts) -> Latents:
        """What the decoder itself does about forbidden actions; the guard does the rest."""
        return action


@dataclass(frozen=True)
class MapDecoder(Decoder):
    """Through an invertible map onto the allowed actions; its log-determinant gives the density.

    `entropy` chooses what stands for log π: `prior`, log μ(â|s) + ‖â‖²/2, relative to the map's own density; `exact`,
    by the log-determinant; `plain`, log μ(â|s).
    """

    shape: jax.tree_util.PyTreeDef = field(repr=False)
    rest: ActionMap = field(repr=False)
    base: Base
    needs_map: ClassVar[bool] = True
    unused: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def make(cls, problem: Problem, map_: ActionMap | None, **options: str) -> tuple[Decoder, Frozen]:
        if map_ is None:
            raise ArgumentError("map_", "a map, which this method acts through", None)
        arrays, rest = eqx.partition(map_, eqx.is_array)
        frozen, shape = jax.tree.flatten(arrays)
        return cls(problem, shape, rest, map_.base, **options), frozen

    @property
    def reach(self) -> float:
        return support(self.base)

    @property
    def unit(self) -> float:
        return self.reach

    def decode(self, frozen: Frozen, latent: Latents, x: Contexts) -> Decoded:
        map_ = eqx.combine(jax.tree.unflatten(self.shape, frozen), self.rest)
        return Decoded(*each(map_.forward, self.clip(latent), x))

    def _log_density(self, frozen: Frozen, drawn: Drawn, x: Contexts, entropy: str) -> Scalars:
        if entropy == "prior":
            return drawn.density + jnp.sum(drawn.latent**2, axis=1) / 2
        return drawn.density if entropy == "plain" else super()._log_density(frozen, drawn, x, entropy)

    def random(self, noise: Latents) -> Latents:
        return noise if self.base == "normal" else super().random(noise)


@dataclass(frozen=True)
class BoxDecoder(Decoder):
    """The latent is the action. `correction`: one step against the `worst` row, or `projection` by the guard."""

    correction: str = "projection"
    squashed: ClassVar[bool] = True

    @property
    def reach(self) -> float:
        return 1.0

    def decode(self, frozen: Frozen, latent: Latents, x: Contexts) -> Decoded:
        return Decoded(latent, jnp.zeros(latent.shape[0]))

    def seen(self, frozen: Frozen, latent: Latents, observation: Observations, critic: str) -> Latents:
        return self.clip(latent)

    def seen_next(self, frozen: Frozen, latent: Latents, observation: Observations, critic: str) -> Latents:
        if critic == "latent":
            return self.clip(latent)
        return self.corrected(self.clip(latent), self.problem.read(observation))

    def corrected(self, action: Latents, x: Contexts) -> Latents:
        if self.correction == "projection":
            return super().corrected(action, x)
        return jax.vmap(lambda x, a: correct_worst(self.problem.constraint, x, a))(x, action)

    def _executed(self, action: Latents, x: Contexts) -> Latents:
        return action if self.correction == "projection" else self.corrected(action, x)


@dataclass(frozen=True)
class ClipDecoder(Decoder):
    """The latent clipped to the action box, as on-policy algorithms are usually run; the guard projects it."""

    def decode(self, frozen: Frozen, latent: Latents, x: Contexts) -> Decoded:
        return Decoded(jnp.clip(latent, -1, 1), jnp.zeros(latent.shape[0]))


@dataclass(frozen=True)
class LayerDecoder(Decoder):
    """A differentiable projection as the actor's last layer."""

    squashed: ClassVar[bool] = True

    @property
    def reach(self) -> float:
        return 1.0

    def decode(self, frozen: Frozen, latent: Latents, x: Contexts) -> Decoded:
        return Decoded(project_actions(self.problem.constraint, x, latent), jnp.zeros(latent.shape[0]))


@dataclass(frozen=True)
class AlphaDecoder(Decoder):
    """Outputs beyond the set are drawn back along a ray to its boundary."""

    def decode(self, frozen: Frozen, latent: Latents, x: Contexts) -> Decoded:
        constraint = self.problem.constraint
        return Decoded(each(lambda x, v: alpha(constraint, x, v), x, latent), jnp.zeros(latent.shape[0]))

    def _log_density(self, frozen: Frozen, drawn: Drawn, x: Contexts, entropy: str) -> Scalars:
        return jax.vmap(partial(alpha_log_density, self.problem.constraint))(x, *drawn[:3])


@dataclass(frozen=True)
class RadialDecoder(Decoder):
    """Outputs are squashed along rays from an inner point."""

    def decode(self, frozen: Frozen, latent: Latents, x: Contexts) -> Decoded:
        constraint = self.problem.constraint
        return Decoded(*each(lambda x, v: radial(constraint, x, v), x, latent))
