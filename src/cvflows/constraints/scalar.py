"""A constraint's rows as plain Python on floats, in double precision, for one action at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from cvflows.constraints.base import AbstractConstraint, all_rows
from cvflows.constraints.programs import as_python
from cvflows.constraints.writing import write


class ScalarRows(NamedTuple):
    """Functions of a context and an action, both sequences of floats."""

    rows: Callable[[Sequence[float], Sequence[float]], list[float]]
    """Every row, those of the action box last."""
    inside: Callable[[Sequence[float], Sequence[float]], bool]
    """Whether every row is ≤ 0; never true where one is NaN."""


@lru_cache
def scalar_rows(constraint: AbstractConstraint) -> ScalarRows | None:
    """The rows of a constraint in Python; None where they cannot be written."""
    written = write(lambda x, a: all_rows(constraint, x, a), x=constraint.context_dim, a=constraint.action_dim)
    if written is None:
        return None
    title, rows = type(constraint).__name__, map(as_python, written.results)
    return ScalarRows(
        written.define(f"rows of {title}"),
        written.define(f"inside of {title}", " and ".join(f"{row} <= 0" for row in rows)),
    )
