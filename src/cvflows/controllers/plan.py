"""Plan: everything that a controller computes, as arrays, programs and plain data, without JAX.

    observation ─► actor ─► map or decoder ─► float32 ─► every row ≤ 1e-6 ? ─► action
                                                              └─ no, or a faulty input ─► fallback, checked likewise

`controllers/c.py` prints a plan as C, `controllers/python.py` runs one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cvflows.constraints.programs import FaultyProgramError, Program, from_data, packed, unpacked
from cvflows.errors import CVFlowsError, dimension, look_up
from cvflows.files import Json

TOLERANCE = 1e-6
"""The one strict tolerance, that of `constraints/outcome.py`, which would load JAX."""
NORM_EPSILON = 1e-5
FURTHEST = 2.0
"""An action entry further out is as good as NaN, and cannot overflow in single precision."""
ACTIVATIONS = {name: name for name in ("relu", "tanh", "elu", "silu")}
FALLBACKS = {name: name for name in ("last", "anchor", "fixed")}
MOST = 65_536


class FaultyPlanError(CVFlowsError, ValueError):
    """Data that should describe a controller does not."""


@dataclass(frozen=True)
class Layer:
    """x·weight + bias; where it is followed by layer norm, its scale and shift. Arrays are float32."""

    weight: np.ndarray
    bias: np.ndarray
    scale: np.ndarray | None = None
    shift: np.ndarray | None = None


@dataclass(frozen=True)
class Network:
    """An actor: inputs taken as (x - mean)·factor, clipped at ±`clip`; layers; then outputs that never change."""

    mean: np.ndarray
    factor: np.ndarray
    clip: float
    activation: str
    layers: tuple[Layer, ...]
    free: np.ndarray

    @property
    def inputs(self) -> int:
        """Entries of an input."""
        return len(self.mean)

    @property
    def outputs(self) -> int:
        """Entries of an output, free ones included."""
        return len(self.layers[-1].bias) + len(self.free)


@dataclass(frozen=True)
class Plan:
    """A controller.

    - `about`: where it comes from, for people: task, method, constraint, versions, fingerprint.
    - `network`: the actor.
    - `context`: from an observation `obs` to the constraint's context; `action`: from the actor's `output` and `obs`
      to an action; `rows` of a context `x` and an action `a`, those of the action box last; `anchor`: an inner point
      at `x`, where there is a formula for it.
    - `low`, `high`: limits of the inputs, infinite where there are none.
    - `fallback`: what is tried first where the policy's action cannot be used: `last`, `anchor` or `fixed`.
    - `fixed`: an action to fall back on.
    """

    about: Mapping[str, Json]
    network: Network
    context: Program
    action: Program
    rows: Program
    anchor: Program | None
    low: np.ndarray
    high: np.ndarray
    fallback: str
    fixed: tuple[float, ...]

    @property
    def order(self) -> tuple[str, ...]:
        """What is tried in place of the policy's action, in this order."""
        known = ("anchor", "last", "fixed") if self.anchor is not None else ("last", "fixed")
        first = (self.fallback,) if self.fallback in known else ()
        return (*first, *(name for name in known if name != self.fallback))

    def as_data(self) -> dict[str, object]:
        """The plan as JSON."""
        return {
            "about": dict(self.about),
            "observation_dim": self.network.inputs,
            "action_dim": len(self.fixed),
            "context_dim": len(self.context.results),
            "rows_count": len(self.rows.results),
            "network": _network_data(self.network),
            "context": self.context.as_data(),
            "action": self.action.as_data(),
            "rows": self.rows.as_data(),
            "anchor": None if self.anchor is None else self.anchor.as_data(),
            "low": [number(value) for value in self.low.tolist()],
            "high": [number(value) for value in self.high.tolist()],
            "fallback": self.fallback,
            "fixed": list(self.fixed),
        }


def plan_from(data: Mapping[str, Json]) -> Plan:
    """The plan that `as_data` wrote. Everything is checked: sizes agree, arrays are finite, programs are programs."""
    try:
        o, d, c, r = (
            dimension(name, data[name], least=least, most=MOST)
            for name, least in (("observation_dim", 1), ("action_dim", 1), ("context_dim", 0), ("rows_count", 1))
        )
        about, network = data["about"], _network_from(data["network"], o)
        anchor = None if data["anchor"] is None else from_data(data["anchor"], {"x": c}, d)
        low, high = (np.array([unnumber(value) for value in _list(data[name], o)]) for name in ("low", "high"))
        fixed = tuple(float(unnumber(value)) for value in _list(data["fixed"], d))
        if not isinstance(about, dict) or not all(map(math.isfinite, fixed)):
            raise ValueError("`about` or `fixed`")
        return Plan(
            about,
            network,
            from_data(data["context"], {"obs": o}, c),
            from_data(data["action"], {"output": network.outputs, "obs": o}, d),
            from_data(data["rows"], {"x": c, "a": d}, r),
            anchor,
            low,
            high,
            look_up("fallback", data["fallback"], FALLBACKS),
            fixed,
        )
    except (FaultyProgramError, LookupError, TypeError, ValueError) as error:
        raise FaultyPlanError(f"no controller ({error})") from None


def number(value: float) -> float | str:
    """A number as strict JSON: what is not finite as text."""
    return value if math.isfinite(value) else repr(value)


def unnumber(value: object) -> float:
    """The number that `number` wrote."""
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _list(value: object, size: int) -> Sequence[object]:
    if not isinstance(value, list) or len(value) != size:
        raise ValueError(f"no list of {size} entries")
    return value


def _network_data(network: Network) -> dict[str, object]:
    return {
        "sizes": [network.inputs, *(len(layer.bias) for layer in network.layers)],
        "free_count": len(network.free),
        "activation": network.activation,
        "clip": number(network.clip),
        "encoding": "float32, little-endian, base64; weights row by row, a row per input",
        "mean": packed(network.mean),
        "factor": packed(network.factor),
        "layers": [
            {name: packed(array) for name, array in vars(layer).items() if array is not None}
            for layer in network.layers
        ],
        "free": packed(network.free),
    }


def _network_from(data: object, inputs: int) -> Network:
    if not isinstance(data, dict):
        raise ValueError("no network")
    sizes = [dimension("sizes", size, most=MOST) for size in data["sizes"]]
    if len(sizes) < 2 or sizes[0] != inputs or len(data["layers"]) != len(sizes) - 1:
        raise ValueError("sizes of the network")
    layers = []
    for given, rows, columns in zip(data["layers"], sizes, sizes[1:], strict=False):
        vectors = {name: unpacked(given[name], columns) for name in ("bias", "scale", "shift") if name in given}
        if ("scale" in vectors) != ("shift" in vectors):
            raise ValueError("half a layer norm")
        layers.append(Layer(unpacked(given["weight"], rows, columns), **vectors))
    clip, free = unnumber(data["clip"]), dimension("free_count", data["free_count"], least=0, most=MOST)
    if not clip > 0:
        raise ValueError("`clip`")
    mean, factor = (unpacked(data[name], inputs) for name in ("mean", "factor"))
    activation = look_up("activation", data["activation"], ACTIVATIONS)
    return Network(mean, factor, clip, activation, tuple(layers), unpacked(data["free"], free))
