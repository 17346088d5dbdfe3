"""A constraint as plain data and back, so that what was made for it can be stored without pickle."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cvflows.constraints.base import AbstractConstraint, Intersection, Reads
from cvflows.constraints.learned import LearnedConstraint
from cvflows.constraints.ranges import Planes, Ranges
from cvflows.constraints.sets.registry import make_set, name_of
from cvflows.constraints.signals import MODELS
from cvflows.constraints.union import Union
from cvflows.errors import look_up

Data = dict[str, Any]
"""JSON, as `json.loads` gives it."""


def describe(constraint: AbstractConstraint) -> Data | None:
    """JSON-ready data that `rebuild` understands; None when a function of the user's is part of the set."""
    match constraint:
        case Intersection(parts=parts):
            described = [describe(part) for part in parts]
            return None if None in described else {"all_of": described}
        case Union(parts=parts):
            described = [describe(part) for part in parts]
            return None if None in described else {"any_of": described}
        case Reads(part=part, indices=indices, context_dim=size):
            inner = describe(part)
            return None if inner is None else {"reads": list(indices), "of": size, "part": inner}
        case LearnedConstraint(cost=cost):
            return _describe_learned(constraint) if isinstance(cost, Ranges | Planes) else None
    name, arguments = name_of(constraint), constraint.arguments()
    if name is None or arguments is None:
        return None
    return {"set": name, **{argument: _plain(value) for argument, value in arguments.items()}}


def rebuild(data: Data) -> AbstractConstraint:
    """The constraint that `describe` described."""
    if "all_of" in data:
        return Intersection(tuple(rebuild(part) for part in data["all_of"]))
    if "any_of" in data:
        return Union(*(rebuild(part) for part in data["any_of"]))
    if "reads" in data:
        return Reads(rebuild(data["part"]), tuple(data["reads"]), data["of"])
    if "learned" in data:
        return _rebuild_learned(data)
    arguments = {name: value for name, value in data.items() if name != "set"}
    return make_set(data["set"], **arguments)


def fingerprint(constraint: AbstractConstraint) -> list[float]:
    """The rows at a few fixed samples: two sets that agree on these are taken to be the same."""
    keys = jax.random.split(jax.random.key(7))
    x = jax.random.normal(keys[0], (4, constraint.context_dim))
    a = jax.random.uniform(keys[1], (4, constraint.action_dim), minval=-1.0, maxval=1.0)
    return [float(value) for value in jnp.ravel(jax.vmap(constraint.rows)(x, a))]


def is_same(constraint: AbstractConstraint, recorded: list[float]) -> bool:
    """Whether the constraint's rows agree with a recorded fingerprint."""
    here = fingerprint(constraint)
    return len(here) == len(recorded) and bool(np.allclose(here, recorded, rtol=1e-4, atol=1e-5, equal_nan=True))


def _describe_learned(constraint: LearnedConstraint) -> Data:
    numbers = {name: list(getattr(constraint, name)) for name in ("persistence", "push", "error")}
    model = {"model": type(constraint.model).__name__, "parameters": constraint.model.as_data()}
    cost = constraint.cost
    limits = (
        {"planes": [_plain(cost.normals), _plain(cost.bounds), list(cost.names)]}
        if isinstance(cost, Planes)
        else {"limits": _plain(cost.entries)}  # type: ignore[attr-defined]
    )
    return {"learned": constraint.form, **limits, **model, **numbers}


def _rebuild_learned(data: Data) -> LearnedConstraint:
    parameters = {name: np.asarray(value, np.float32) for name, value in data["parameters"].items()}
    limits = Planes(*data["planes"]) if "planes" in data else Ranges(tuple(map(tuple, data["limits"])))
    numbers = (tuple(data[name]) for name in ("persistence", "push", "error"))
    return LearnedConstraint(limits, data["learned"], look_up("model", data["model"], MODELS)(**parameters), *numbers)


def _plain(value: object) -> object:
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value
