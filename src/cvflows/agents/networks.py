"""Perceptrons of actors and critics, as plain pytrees of (weight, bias)."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Layer(NamedTuple):
    """Weight (inputs, outputs) and bias (outputs)."""

    weight: Array
    bias: Array


Network = tuple[Layer, ...]


def make_network(rng: np.random.Generator, inputs: int, hidden: tuple[int, ...], outputs: int) -> Network:
    """A perceptron with weights and biases uniform on ±1/√inputs of each layer."""
    sizes = (inputs, *hidden, outputs)

    def layer(fan_in: int, fan_out: int) -> Layer:
        reach = 1 / np.sqrt(fan_in)
        weight, bias = (rng.uniform(-reach, reach, shape) for shape in ((fan_in, fan_out), fan_out))
        return Layer(jnp.asarray(weight, jnp.float32), jnp.asarray(bias, jnp.float32))

    return tuple(layer(*pair) for pair in itertools.pairwise(sizes))


def apply(network: Network, x: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
    """Rectified linear units between the layers."""
    for layer in network[:-1]:
        x = jax.nn.relu(x @ layer.weight + layer.bias[None])
    return x @ network[-1].weight + network[-1].bias[None]


def blend(target: Network, online: Network, tau: float) -> Network:
    """target + τ·(online - target)."""
    return jax.tree.map(lambda old, new: old + tau * (new - old), target, online)
