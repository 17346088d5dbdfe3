"""Perceptrons of actors and critics, each one flat vector.

An optimiser's step on one vector is one small kernel instead of six, and a state of a dozen arrays is handed over
faster than one of sixty: at 64×64 an update takes a sixth less time. Layers are cut out of the vector when it is
applied. It begins with a mean and a factor for every input, which gradients leave alone: they travel with the network
wherever it goes.
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Network = Float[Array, " parameters"]
Sizes = tuple[int, ...]
"""Inputs, hidden layers, outputs."""
LEAST_SPREAD = 1e-2


def make_network(rng: np.random.Generator, sizes: Sizes) -> Network:
    """Weights and biases uniform on ±1/√inputs of each layer; inputs are taken as they are."""
    parts = [np.zeros(sizes[0]), np.ones(sizes[0])]
    for fan_in, fan_out in itertools.pairwise(sizes):
        reach = 1 / math.sqrt(fan_in)
        parts.append(rng.uniform(-reach, reach, (fan_in + 1) * fan_out))
    return jnp.asarray(np.concatenate(parts), jnp.float32)


def standardised(networks: Float[Array, "*many parameters"], sizes: Sizes, samples: np.ndarray) -> Array:
    """The same networks, taking their first inputs relative to the mean and spread of `samples` (n, those inputs)."""
    changed, size = np.array(networks), samples.shape[1]
    changed[..., :size] = samples.mean(axis=0)
    changed[..., sizes[0] : sizes[0] + size] = 1 / np.maximum(samples.std(axis=0), LEAST_SPREAD)
    return jnp.asarray(changed)


def apply_on_host(network: np.ndarray, sizes: Sizes, x: np.ndarray) -> np.ndarray:
    """The same for a few inputs, by numpy: the compiled function first cuts the weights out of the vector."""
    inputs = sizes[0]
    x = (x - network[:inputs]) * network[inputs : 2 * inputs]
    start = 2 * inputs
    for index, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        end = start + fan_in * fan_out
        x = x @ network[start:end].reshape(fan_in, fan_out) + network[end : end + fan_out]
        if index < len(sizes) - 2:
            x = np.maximum(x, 0)
        start = end + fan_out
    return x


def apply(network: Network, sizes: Sizes, x: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
    """Rectified linear units between the layers."""
    inputs = sizes[0]
    mean, factor = jnp.split(jax.lax.stop_gradient(network[: 2 * inputs]), 2)
    x = (x - mean[None]) * factor[None]
    start = 2 * inputs
    for index, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        end = start + fan_in * fan_out
        weight, bias = network[start:end].reshape(fan_in, fan_out), network[end : end + fan_out]
        x = x @ weight + bias[None]
        if index < len(sizes) - 2:
            x = jax.nn.relu(x)
        start = end + fan_out
    return x
