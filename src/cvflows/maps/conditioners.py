"""Multilayer perceptrons, initialised on the host: compiling random generators would take longer than the rest."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def make_mlp(
    rng: np.random.Generator,
    inputs: int,
    outputs: int,
    width: int,
    *,
    activation: Callable[[Array], Array],
    stack: int | None = None,
    last: float | None = None,
) -> eqx.nn.MLP:
    """Two hidden layers, weights uniform on ±1/√fan_in.

    `stack` gives that many networks in one, along a leading axis; `last` shrinks the last layer's weights by this
    factor and starts its biases at zero.
    """
    net = eqx.filter_eval_shape(eqx.nn.MLP, inputs, outputs, width, 2, activation, key=jax.random.key(0))
    lead = () if stack is None else (stack,)

    def fill(layer: eqx.nn.Linear, factor: float | None) -> eqx.nn.Linear:
        reach = 1 / np.sqrt(max(layer.in_features, 1))
        weight = rng.uniform(-reach, reach, (*lead, *layer.weight.shape))
        assert layer.bias is not None  # an MLP's layers have one
        bias = rng.uniform(-reach, reach, (*lead, *layer.bias.shape))
        if factor is not None:
            weight, bias = factor * weight, 0 * bias
        arrays = jnp.asarray(weight, jnp.float32), jnp.asarray(bias, jnp.float32)
        return eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, arrays)

    layers = tuple(fill(layer, last if layer is net.layers[-1] else None) for layer in net.layers)
    return eqx.tree_at(lambda net: net.layers, net, layers)
