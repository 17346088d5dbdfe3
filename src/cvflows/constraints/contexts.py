"""Distributions p_S over contexts: where a map is trained, and where a set is tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from cvflows.errors import ArgumentError, dimension, positive

if TYPE_CHECKING:
    from jax import Array
else:  # the catalogue of tasks loads without JAX
    Array = object


@runtime_checkable
class ContextDistribution(Protocol):
    """Anything that draws contexts."""

    @property
    def size(self) -> int:
        """Entries of one context."""

    def sample(self, key: Array, count: int) -> Array:
        """`count` independent contexts, shape (count, size)."""


@dataclass(frozen=True)
class Uniform:
    """`size` independent entries, uniform on [low, high]."""

    size: int
    low: float
    high: float

    def __post_init__(self) -> None:
        dimension("size", self.size, least=0)
        if not self.low < self.high:
            raise ArgumentError("low", f"below `high` = {self.high}", self.low)

    def sample(self, key: Array, count: int) -> Array:
        import jax

        return jax.random.uniform(key, (count, self.size), minval=self.low, maxval=self.high)

    def __str__(self) -> str:
        return f"U[{self.low:.3g}, {self.high:.3g}]^{self.size}" if self.size else "none"


@dataclass(frozen=True)
class Normal:
    """`size` independent entries, normal with the given `mean` and `std`."""

    size: int
    mean: float
    std: float

    def __post_init__(self) -> None:
        dimension("size", self.size, least=0)
        positive("std", self.std)

    def sample(self, key: Array, count: int) -> Array:
        import jax

        return self.mean + self.std * jax.random.normal(key, (count, self.size))

    def __str__(self) -> str:
        return f"N({self.mean:.3g}, {self.std:.3g}²)^{self.size}"


@dataclass(frozen=True)
class Product:
    """Independent groups of entries, one after the other."""

    parts: tuple[ContextDistribution, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    def sample(self, key: Array, count: int) -> Array:
        import jax
        import jax.numpy as jnp

        keys = jax.random.split(key, len(self.parts))
        return jnp.concatenate([p.sample(k, count) for p, k in zip(self.parts, keys, strict=True)], axis=1)

    def __str__(self) -> str:
        return " × ".join(map(str, self.parts))


@dataclass(frozen=True, eq=False)
class Observed:
    """Contexts seen elsewhere, drawn with replacement from the rows of `values`."""

    values: np.ndarray

    def __post_init__(self) -> None:
        values = np.asarray(self.values, np.float32)
        if values.ndim != 2 or not len(values):
            raise ArgumentError("values", "a table with one context per row", f"shape {values.shape}")
        if not np.isfinite(values).all():
            raise ArgumentError("values", "finite numbers", "NaN or infinity")
        object.__setattr__(self, "values", values)

    @property
    def size(self) -> int:
        return int(self.values.shape[1])

    def sample(self, key: Array, count: int) -> Array:
        import jax
        import jax.numpy as jnp

        return jnp.asarray(self.values)[jax.random.randint(key, (count,), 0, len(self.values))]

    def __str__(self) -> str:
        return f"{len(self.values)} observed"
