"""Signal models: by how much an action changes the costs of a state, c(s') - c(s) ≈ b(s) + w(s)·a."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, fields
from types import ModuleType
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from cvflows.constraints.base import Vector
from cvflows.errors import look_up

Table = TypeVar("Table", np.ndarray, Array)
Parameters = tuple[Array, ...]
HIDDEN = 10
RIDGE = 1e-9


@dataclass(frozen=True, eq=False)
class SignalModel(abc.ABC):
    """A frozen model of z = (s - centre) / scale, with its parameters as arrays."""

    centre: np.ndarray
    scale: np.ndarray

    @property
    def observation_dim(self) -> int:
        """Entries of an observation."""
        return len(self.centre)

    @property
    @abc.abstractmethod
    def action_dim(self) -> int:
        """Entries of an action."""

    @abc.abstractmethod
    def __call__(self, s: Vector) -> tuple[Array, Array]:
        """(b, w) of one observation: shapes (costs,) and (costs, action_dim)."""

    def drift(self, states: np.ndarray) -> np.ndarray:
        """b of a table of observations."""
        return np.asarray(jax.jit(jax.vmap(lambda s: self(s)[0]))(jnp.asarray(states, jnp.float32)))

    def strength(self, states: np.ndarray) -> np.ndarray:
        """S = ‖w‖₁ of a table of observations: how much the strongest action takes off each cost."""

        def size(s: Array) -> Array:
            return jnp.sum(jnp.abs(self(s)[1]), axis=1)

        return np.asarray(jax.jit(jax.vmap(size))(jnp.asarray(states, jnp.float32)))

    def predict(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """b(s) + w(s)·a for tables of both."""

        def change(s: Array, a: Array) -> Array:
            b, w = self(s)
            return b + jnp.sum(w * a[None], axis=1)

        return np.asarray(
            jax.jit(jax.vmap(change))(jnp.asarray(states, jnp.float32), jnp.asarray(actions, jnp.float32))
        )

    def as_data(self) -> dict[str, list[object]]:
        """JSON-ready parameters."""
        return {field.name: np.asarray(getattr(self, field.name)).tolist() for field in fields(self)}


@dataclass(frozen=True, eq=False)
class Polynomial(SignalModel):
    """b and w linear in features of the standardised observation z: (1, z), or with all products z_i z_j.

    `weights` has shape (costs, 1 + action_dim, features): b first, then w.
    """

    weights: np.ndarray

    @property
    def action_dim(self) -> int:
        return int(self.weights.shape[1]) - 1

    def __call__(self, s: Vector) -> tuple[Array, Array]:
        features = _features(jnp, (s - self.centre) / self.scale, self.weights.shape[-1])
        both = jnp.sum(jnp.asarray(self.weights) * features[None, None], axis=-1)
        return both[:, 0], both[:, 1:]


@dataclass(frozen=True, eq=False)
class Network(SignalModel):
    """One perceptron per cost with a hidden layer of ten; `paper` has no drift, so b = 0."""

    first: np.ndarray
    first_bias: np.ndarray
    second: np.ndarray
    second_bias: np.ndarray
    drifts: np.ndarray

    @property
    def action_dim(self) -> int:
        return int(self.second.shape[1]) - 1

    def __call__(self, s: Vector) -> tuple[Array, Array]:
        parameters = (self.first, self.first_bias, self.second, self.second_bias)
        both = _perceptrons(tuple(map(jnp.asarray, parameters)), (s - self.centre) / self.scale)
        return both[:, 0] * jnp.asarray(self.drifts), both[:, 1:]


Fitter = Callable[[np.ndarray, np.ndarray, np.ndarray, bool, int], tuple[np.ndarray, ...]]
"""(z, actions, change, drift, seed) to the parameters of a model."""


def fit_signal(
    family: str, states: np.ndarray, actions: np.ndarray, change: np.ndarray, *, drift: bool, seed: int
) -> SignalModel:
    """The model of `family` with the least mean squared error; without `drift`, b = 0."""
    centre, scale = states.mean(axis=0), states.std(axis=0)
    scale = np.where(scale > 1e-8, scale, 1.0)
    parameters = look_up("family", family, FAMILIES)((states - centre) / scale, actions, change, drift, seed)
    model = Network if family.casefold() == "network" else Polynomial
    return model(*(np.asarray(part, np.float32) for part in (centre, scale, *parameters)))


def _features(xp: ModuleType, z: Table, count: int) -> Table:
    """(1, z) or, when `count` asks for more, with the products z_i z_j, i ≤ j."""
    size = z.shape[-1]
    parts = [xp.ones((*z.shape[:-1], 1), z.dtype), z]
    if count > 1 + size:
        i, j = np.triu_indices(size)
        parts.append(z[..., i] * z[..., j])
    return xp.concatenate(parts, axis=-1)


def _least_squares(quadratic: bool) -> Fitter:
    def fit(z: np.ndarray, actions: np.ndarray, change: np.ndarray, drift: bool, seed: int) -> tuple[np.ndarray, ...]:
        n, d = actions.shape
        size = z.shape[1]
        count = 1 + size + (size * (size + 1) // 2 if quadratic else 0)
        features = _features(np, z, count)
        factors = np.concatenate([np.full((n, 1), float(drift)), actions], axis=1)
        design = (factors[:, :, None] * features[:, None, :]).reshape(n, (1 + d) * count)
        gram = design.T @ design
        gram[np.diag_indices_from(gram)] += RIDGE * n
        return (np.linalg.solve(gram, design.T @ change).T.reshape(-1, 1 + d, count),)

    return fit


def _perceptrons(parameters: Parameters, z: Array) -> Array:
    first, first_bias, second, second_bias = parameters
    hidden = jax.nn.relu(jnp.sum(first * z[None, None], axis=-1) + first_bias)
    return jnp.sum(second * hidden[:, None, :], axis=-1) + second_bias


def _fit_network(
    z: np.ndarray, actions: np.ndarray, change: np.ndarray, drift: bool, seed: int
) -> tuple[np.ndarray, ...]:
    """10,000 steps of Adam at 1e-3 with batches of 256, on changes scaled to unit spread."""
    import optax

    rng = np.random.default_rng(seed)
    costs, d, size = change.shape[1], actions.shape[1], z.shape[1]
    spread = np.maximum(change.std(axis=0), 1e-8)
    start = (
        rng.uniform(-1, 1, (costs, HIDDEN, size)) / np.sqrt(size),
        rng.uniform(-1, 1, (costs, HIDDEN)) / np.sqrt(size),
        rng.uniform(-1, 1, (costs, 1 + d, HIDDEN)) / np.sqrt(HIDDEN),
        np.zeros((costs, 1 + d)),
    )
    parameters = tuple(jnp.asarray(part, jnp.float32) for part in start)
    optimiser = optax.adam(1e-3)
    data = tuple(jnp.asarray(table, jnp.float32) for table in (z, actions, change / spread))

    def loss(parameters: Parameters, z: Array, a: Array, target: Array) -> Array:
        both = jax.vmap(lambda z: _perceptrons(parameters, z))(z)
        predicted = both[..., 0] * float(drift) + jnp.sum(both[..., 1:] * a[:, None], axis=-1)
        return jnp.mean((predicted - target) ** 2)

    def step(carry: tuple[Parameters, optax.OptState], key: Array) -> tuple[tuple[Parameters, optax.OptState], None]:
        parameters, state = carry
        rows = jax.random.randint(key, (256,), 0, len(z))
        gradient = jax.grad(loss)(parameters, *(table[rows] for table in data))
        updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(parameters, updates), state), None

    keys = jax.random.split(jax.random.key(seed), 10_000)
    (parameters, _), _ = jax.jit(lambda carry, keys: jax.lax.scan(step, carry, keys))(
        (parameters, optimiser.init(parameters)), keys
    )
    first, first_bias, second, second_bias = map(np.asarray, parameters)
    second, second_bias = second * spread[:, None, None], second_bias * spread[:, None]
    return first, first_bias, second, second_bias, np.full(costs, float(drift))


FAMILIES: dict[str, Fitter] = {
    "affine": _least_squares(quadratic=False),
    "quadratic": _least_squares(quadratic=True),
    "network": _fit_network,
}
MODELS: dict[str, type[SignalModel]] = {"Polynomial": Polynomial, "Network": Network}
