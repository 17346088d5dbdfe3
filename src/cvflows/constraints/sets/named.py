"""What a set known by name states beside its rows, which its bound normalises: a row of 0.1 is ten per cent over."""

from __future__ import annotations

import abc
from dataclasses import fields

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.forms import Cvxpy, Expression, Form
from cvflows.constraints.legacy_metric import LegacyRows


class NamedSet(AbstractConstraint):
    """A frozen dataclass whose fields are plain data: `make_set` and task files know it by the name of its class."""

    @abc.abstractmethod
    def reference_form(self, cvxpy: Cvxpy, y: Expression) -> Form:
        """The set as constraints of the reference solver on its variable `y`; raises an error if it is not convex."""

    @abc.abstractmethod
    def legacy_rows(self) -> LegacyRows:
        """When other papers call an action forbidden (see `legacy_metric.py`)."""

    def arguments(self) -> dict[str, object] | None:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


class SizedSet(NamedSet):
    """A set with a free dimension `dim`; convex and blind to the context unless it says otherwise."""

    dim: int
    convex = proven = True

    @property
    def action_dim(self) -> int:
        return self.dim

    @property
    def context_dim(self) -> int:
        return 0


def assign(instance: NamedSet, name: str, value: object) -> None:
    """Set a field of a frozen dataclass, to bring an argument to its normal form."""
    object.__setattr__(instance, name, value)
