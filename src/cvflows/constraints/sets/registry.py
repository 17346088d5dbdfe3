"""Every set that is known by name: to `make_set`, and to files that describe a task, a map or a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import get_type_hints

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.sets.box import Box
from cvflows.constraints.sets.ellipsoid import Ellipsoid
from cvflows.constraints.sets.half_spaces import HalfSpaces
from cvflows.constraints.sets.joints import MomentArm, Tip
from cvflows.constraints.sets.named import NamedSet
from cvflows.constraints.sets.shares import Simplex, Sum
from cvflows.constraints.sets.spheres import Ball, Shell
from cvflows.constraints.sets.weighted import MaxPower, Orthoplex, SinSquared
from cvflows.errors import ArgumentError, look_up

Maker = Callable[..., NamedSet]
SETS: dict[str, Maker] = {}


def register(make: Maker) -> None:
    """Let a set be known by its name: a frozen dataclass derived from `NamedSet`, or a function that returns one.

    A set that does not state its reference form or its legacy rows is an error here.
    """
    kind = make if isinstance(make, type) else get_type_hints(make).get("return")
    if not isinstance(kind, type) or not issubclass(kind, NamedSet) or not is_dataclass(kind) or kind.__hash__ is None:
        raise ArgumentError("make", "a frozen dataclass derived from NamedSet, or a function that returns one", make)
    if kind.__abstractmethods__:
        raise ArgumentError("make", f"a set that states {', '.join(sorted(kind.__abstractmethods__))}", kind.__name__)
    if make.__name__.casefold() in (name.casefold() for name in SETS):
        raise ArgumentError("make", "a name that no other set has", make.__name__)
    SETS[make.__name__] = make


def make_set(name: str, **arguments: object) -> AbstractConstraint:
    """A set by name: `make_set("Ball", dim=2, radius=0.5)`."""
    return look_up("set", name, SETS)(**arguments)


def name_of(constraint: AbstractConstraint) -> str | None:
    """The name a set is known by; None if there is none."""
    name = type(constraint).__name__
    return name if SETS.get(name) is type(constraint) else None


register(Box)
register(Ball)
register(Shell)
register(MaxPower)
register(Orthoplex)
register(SinSquared)
register(HalfSpaces)
register(Ellipsoid)
register(Tip)
register(MomentArm)
register(Sum)
register(Simplex)
