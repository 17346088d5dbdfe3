"""ActionMap: an invertible map from a latent to actions, for every context, with its log-determinant."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cvflows.constraints.base import AbstractConstraint
from cvflows.errors import look_up

CLIP = 3.0
"""Gaussian latents are clipped at ±3: where an agent may act, and what counts as covered."""

LEAK = 0.0045
"""Share of the soft target's mass outside the set that the automatic penalty aims at."""

Vector = Float[Array, "dim"]
Context = Float[Array, "context"]
Mapped = tuple[Float[Array, "dim"], Float[Array, ""]]
Base = Literal["normal", "uniform"]


class MapMethod(eqx.Module):
    """`forward` or `inverse` of one map: a pytree, and hashable by identity, so that plain `jax.jit` takes it."""

    function: Callable[[ActionMap, Vector, Context], Mapped] = eqx.field(static=True)
    map: ActionMap

    def __call__(self, value: Vector, context: Context) -> Mapped:
        return self.function(self.map, value, context)

    def __hash__(self) -> int:
        return hash((id(self.map), self.function))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MapMethod) and self.map is other.map and self.function is other.function


class ActionMap(eqx.Module):
    """f(·, x) from latents to actions, one sample at a time; batch with `jax.vmap`.

    `base` names the latent's distribution: "normal" is N(0, I), "uniform" is uniform on [-1,1]^d.
    """

    constraint: eqx.AbstractVar[AbstractConstraint]
    base: eqx.AbstractVar[Base]

    @property
    @abc.abstractmethod
    def certified(self) -> bool:
        """Whether every action is feasible by construction, in every context that leaves one."""

    @property
    def leak(self) -> float:
        """Share of the soft target's mass outside the set that the automatic penalty aims at."""
        return LEAK

    @abc.abstractmethod
    def forward(self, latent: Vector, context: Context) -> Mapped:
        """(action, log|det ∂action/∂latent|)."""

    @abc.abstractmethod
    def inverse(self, action: Vector, context: Context) -> Mapped:
        """(latent, log|det ∂latent/∂action|)."""

    @abc.abstractmethod
    def settings(self) -> dict[str, object]:
        """Keyword arguments, ready for JSON, that make a map of the same shape again."""

    if not TYPE_CHECKING:  # Equinox hashes a bound method by its arrays, which have no hash

        def __getattribute__(self, name: str) -> object:
            found = super().__getattribute__(name)
            return MapMethod(found.__func__, self) if name in ("forward", "inverse") else found


def as_base(name: str) -> Base:
    """A known base distribution, or an error with the nearest name."""
    bases: dict[str, Base] = {"normal": "normal", "uniform": "uniform"}
    return look_up("base distribution", name, bases)


def draw_latents(base: Base, key: PRNGKeyArray, count: int, dim: int) -> Float[Array, "count dim"]:
    """Latents from the base distribution."""
    if base == "normal":
        return jax.random.normal(key, (count, dim))
    return jax.random.uniform(key, (count, dim), minval=-1.0, maxval=1.0)


def support(base: Base) -> float:
    """How far the latents an agent uses reach: 3 for a normal base, 1 for a uniform one."""
    return CLIP if base == "normal" else 1.0


def is_covered(base: Base, latent: Float[Array, "*batch dim"]) -> Array:
    """Whether a latent lies in the support an agent uses: |â_i| ≤ 3 for a normal base, the box for a uniform one."""
    return jnp.all(jnp.abs(latent) <= support(base), axis=-1)


def log_base(base: Base, latent: Vector) -> Float[Array, ""]:
    """Log-density of the base distribution."""
    if base == "normal":
        return -jnp.sum(latent**2) / 2 - len(latent) / 2 * math.log(2 * math.pi)
    return jnp.asarray(-len(latent) * math.log(2.0))


def to_box(base: Base, latent: Vector) -> Mapped:
    """u ∈ (-1,1)^d, exactly uniform when the latent follows the base: erf(â/√2) for a normal one."""
    if base == "uniform":
        return latent, jnp.zeros(())
    log_det = -jnp.sum(latent**2) / 2 + len(latent) / 2 * math.log(2 / math.pi)
    return jax.lax.erf(latent / math.sqrt(2)), log_det


def from_box(base: Base, u: Vector) -> Mapped:
    """The latent of a point of the box."""
    if base == "uniform":
        return u, jnp.zeros(())
    edge = 1 - 2.0**-23  # the last float32 below 1
    latent = math.sqrt(2) * jax.lax.erf_inv(jnp.clip(u, -edge, edge))
    return latent, -to_box(base, latent)[1]
