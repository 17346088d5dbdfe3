"""Perceptrons of actors and critics: modules whose parameters are one flat vector.

An optimiser's step on one vector is one small kernel instead of six, and a state of a dozen arrays is handed over
faster than one of sixty: at 64×64 an update takes a sixth less time. Layers are cut out of the vector when it is
applied, and before it is differentiated: `value_and_slope` joins the slopes of layers, where the slope of a cut would
be a vector of zeros for every layer. The vector begins with a mean and a factor for every input, which gradients leave
alone: they travel with the network wherever it goes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cvflows.agents.products import rounded_product

Parameters = Float[Array, " parameters"]
ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], Callable[[np.ndarray], np.ndarray]]] = {
    "relu": (jax.nn.relu, lambda x: np.maximum(x, 0)),
    "tanh": (jnp.tanh, np.tanh),
    "elu": (jax.nn.elu, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
    "silu": (jax.nn.silu, lambda x: np.where(x > -80, x / (1 + np.exp(-np.maximum(x, -80))), 0)),
}
"""On the device and on the host."""
LEAST_SPREAD = 1e-2
NORM_EPSILON = 1e-5


class Parts(NamedTuple):
    """A network's vector cut up: header, weights (inputs, outputs) and biases by layer, norms, free outputs."""

    mean: Any
    factor: Any
    weights: list[Any]
    biases: list[Any]
    norms: list[tuple[Any, Any]]
    free: Any


@dataclass(frozen=True)
class Perceptron:
    """The shape of a network: `sizes` of inputs, hidden layers and outputs, an `activation`, layer norm or not.

    With the `precision` bfloat16, products between hidden layers are of rounded factors; inputs and outputs are not.
    Inputs are clipped at ±`input_clip` after they were normalised. It is hashable and holds no parameters: `init` makes
    them, and the calls take them, as one vector or, for an ensemble, as a table with a row per network.
    """

    sizes: tuple[int, ...]
    activation: str = "relu"
    layer_norm: bool = False
    input_clip: float = math.inf
    free: int = 0
    """Further outputs that do not depend on the input, such as a policy's log standard deviations."""
    precision: str = "float32"

    @property
    def inputs(self) -> int:
        """Entries of an input."""
        return self.sizes[0]

    @property
    def outputs(self) -> int:
        """Entries of an output, free ones included."""
        return self.sizes[-1] + self.free

    def init(self, rng: np.random.Generator) -> Parameters:
        """Weights and biases uniform on ±1/√inputs of each layer; inputs are taken as they are."""
        reaches = [(1 / math.sqrt(fan_in), (fan_in + 1) * fan_out) for fan_in, fan_out in self._layers()]
        return self._vector([rng.uniform(-reach, reach, count) for reach, count in reaches])

    def init_orthogonal(self, rng: np.random.Generator, last: float) -> Parameters:
        """Orthogonal weights, √2 times as large, in the last layer `last` times; no biases."""
        parts = []
        for index, (fan_in, fan_out) in enumerate(self._layers()):
            q, r = np.linalg.qr(rng.standard_normal((max(fan_in, fan_out), min(fan_in, fan_out))))
            q = q * np.sign(np.diag(r))
            weight = (q if fan_in >= fan_out else q.T) * (last if index == len(self.sizes) - 2 else math.sqrt(2))
            parts.append(np.concatenate([weight.ravel(), np.zeros(fan_out)]))
        return self._vector(parts)

    def _layers(self) -> list[tuple[int, int]]:
        return list(itertools.pairwise(self.sizes))

    def _vector(self, parts: list[np.ndarray]) -> Parameters:
        norms = [np.concatenate([np.ones(size), np.zeros(size)]) for size in self._normed()]
        header = np.zeros(self.inputs), np.ones(self.inputs)
        return jnp.asarray(np.concatenate([*header, *parts, *norms, np.zeros(self.free)]), jnp.float32)

    def _normed(self) -> tuple[int, ...]:
        """Sizes of the layers whose outputs are normalised."""
        return self.sizes[1:-1] if self.layer_norm else ()

    def __call__(
        self, parameters: Parameters | Parts, x: Float[Array, "batch inputs"]
    ) -> Float[Array, "batch outputs"]:
        """The outputs for a batch."""
        parts = parameters if isinstance(parameters, Parts) else self.parts(parameters)
        fixed = jax.lax.stop_gradient((parts.mean, parts.factor))
        return self._apply(jnp, ACTIVATIONS[self.activation][0], parts._replace(mean=fixed[0], factor=fixed[1]), x)

    def on_host(self, parameters: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The same for a few inputs, by numpy: the compiled function first cuts the weights out of the vector."""
        return self._apply(np, ACTIVATIONS[self.activation][1], self.parts(parameters), x)

    def parts(self, parameters: Any) -> Parts:
        """Layers and norms, cut out of the vector."""
        start, weights, biases, norms = 2 * self.inputs, [], [], []
        for fan_in, fan_out in self._layers():
            end = start + fan_in * fan_out
            weights.append(parameters[start:end].reshape(fan_in, fan_out))
            biases.append(parameters[end : end + fan_out])
            start = end + fan_out
        for size in self._normed():
            norms.append((parameters[start : start + size], parameters[start + size : start + 2 * size]))
            start += 2 * size
        mean, factor = parameters[: self.inputs], parameters[self.inputs : 2 * self.inputs]
        return Parts(mean, factor, weights, biases, norms, parameters[start:])

    def joined(self, parts: Parts) -> Parameters:
        """The vector that was cut into `parts`."""
        layers = [part.ravel() for weight_bias in zip(parts.weights, parts.biases, strict=True) for part in weight_bias]
        return jnp.concatenate([parts.mean, parts.factor, *layers, *itertools.chain(*parts.norms), parts.free])

    def _apply(self, xp: Any, activate: Callable[[Any], Any], parts: Parts, x: Any) -> Any:
        x = (x - parts.mean[None]) * parts.factor[None]
        if math.isfinite(self.input_clip):
            x = xp.clip(x, -self.input_clip, self.input_clip)
        last = len(parts.weights) - 1
        for index, (weight, bias) in enumerate(zip(parts.weights, parts.biases, strict=True)):
            rounded = self.precision == "bfloat16" and xp is jnp and 0 < index < last
            x = (rounded_product(x, weight) if rounded else x @ weight) + bias[None]
            if index < last:
                if self.layer_norm:
                    scale, shift = parts.norms[index]
                    mean = xp.full((x.shape[-1], 1), 1 / x.shape[-1], x.dtype)  # a product is faster than a sum
                    centred = x - x @ mean
                    x = centred * (1 / xp.sqrt((centred * centred) @ mean + NORM_EPSILON)) * scale[None] + shift[None]
                x = activate(x)
        if self.free:
            x = xp.concatenate([x, xp.broadcast_to(parts.free, (x.shape[0], self.free))], axis=-1)
        return x

    def standardised(self, parameters: Float[Array, "*many parameters"], samples: np.ndarray) -> Array:
        """Parameters that take the first inputs relative to the mean and spread of `samples` (n, those inputs)."""
        spread = np.maximum(samples.std(axis=0), LEAST_SPREAD)
        return self.normalised(parameters, samples.mean(axis=0), 1 / spread)

    def normalised(self, parameters: Array, mean: np.ndarray, factor: np.ndarray) -> Array:
        """Parameters that take the first inputs as (input - mean)·factor."""
        changed, size = np.array(parameters), len(mean)
        changed[..., :size] = mean
        changed[..., self.inputs : self.inputs + size] = factor
        return jnp.asarray(changed)


@dataclass(frozen=True)
class Ensemble:
    """Several perceptrons of one shape, their parameters a table (count, parameters)."""

    network: Perceptron
    count: int

    def init(self, rng: np.random.Generator) -> Float[Array, "count parameters"]:
        """Independent networks."""
        return jnp.stack([self.network.init(rng) for _ in range(self.count)])

    def __call__(
        self, parameters: Float[Array, "count parameters"] | list[Parts], x: Float[Array, "batch inputs"]
    ) -> list[Array]:
        """The first output (batch,) of every network."""
        return [self.network(parameters[index], x)[:, 0] for index in range(len(parameters))]

    def parts(self, parameters: Any) -> list[Parts]:
        """Layers of every network."""
        return [self.network.parts(row) for row in parameters]

    def joined(self, parts: list[Parts]) -> Float[Array, "count parameters"]:
        """The table that was cut into `parts`."""
        return jnp.stack([self.network.joined(some) for some in parts])


def value_and_slope(
    network: Perceptron | Ensemble, loss: Callable[[Any], Any], parameters: Array, has_aux: bool = False
) -> tuple[Any, Array]:
    """`loss` of the network's layers, and its gradient with respect to `parameters`."""
    parts: Any = network.parts(parameters)
    found, slopes = jax.value_and_grad(loss, has_aux=has_aux)(parts)
    return found, network.joined(slopes)
