"""Errors that name the argument, say what was expected and what came, and suggest the nearest valid name."""

from __future__ import annotations

import difflib
import numbers
import operator
from collections.abc import Iterable, Mapping
from typing import SupportsFloat, SupportsIndex, TypeVar

T = TypeVar("T")


class CVFlowsError(Exception):
    """Base of every error raised on purpose by cvflows."""


class ArgumentError(CVFlowsError, ValueError):
    """An argument has the wrong size, type or value."""

    def __init__(self, argument: str, expected: str, got: object) -> None:
        super().__init__(f"`{argument}`: expected {expected}, got {shown(got)}")


class ConstraintFunctionError(CVFlowsError, ValueError):
    """A constraint function cannot be used: untraceable, wrong shape, or blind to the action."""


class NotConvexError(ConstraintFunctionError):
    """A set was declared convex but is not."""


class EmptySetError(CVFlowsError, RuntimeError):
    """No action is allowed in the context at hand, so that nothing can be executed."""


class FaultyEnvironmentError(CVFlowsError, RuntimeError):
    """An environment gave something that cannot be used."""


class DisconnectedSetWarning(UserWarning):
    """A set is in several pieces, and a map is about to learn it as if it were one."""


class UnsuitableSetError(ArgumentError):
    """A set that a kind of map cannot be made for."""

    def __init__(self, expected: str, got: object) -> None:
        super().__init__("constraint", expected, got)


class StoreError(CVFlowsError, OSError):
    """A file is missing, damaged, foreign, or cannot be written."""

    def __init__(self, path: object, problem: str) -> None:
        super().__init__(f"{path} {problem}")


class ExportError(CVFlowsError, ValueError):
    """A policy that cannot leave Python, and why."""


class MissingExtraError(CVFlowsError, ImportError):
    """A package that only some features need is not installed."""

    def __init__(self, feature: str, packages: str, extra: str) -> None:
        super().__init__(f"{feature} needs {packages}: pip install 'cvflows[{extra}]'")


class DamageWarning(UserWarning):
    """A damaged file was found that is not needed."""


class UnknownNameError(CVFlowsError, LookupError):
    """A name that is not in the catalogue it was looked up in."""

    def __init__(self, kind: str, name: object, choices: Iterable[str]) -> None:
        name, names = shown(name), list(choices)
        folded = {choice.casefold(): choice for choice in names}
        near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.4)
        hint = f"did you mean {folded[near[0]]!r}? " if near else ""
        super().__init__(f"unknown {kind} {name!r}: {hint}choose from {', '.join(names)}")


class UnenforceableLimitError(CVFlowsError, ValueError):
    """A limit on states that no action can enforce: something pushes harder than full braking."""


class UnsafeLimitsWarning(UserWarning):
    """Test episodes left the limits of a learned constraint although every action was guarded."""


class NothingLearnedWarning(UserWarning):
    """A call to train an agent ends before its random steps do."""


def shown(value: object, longest: int = 300) -> str:
    """`value` as text of a length that can be read."""
    try:
        text = str(value)
    except ValueError:  # Python does not print numbers of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= longest else f"{text[:longest]}…"


def what(error: BaseException) -> str:
    """An error in one line: its message if cvflows raised it, with its type otherwise."""
    line = " ".join(shown(error, 2000).split())
    if isinstance(error, CVFlowsError):
        return line
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def positive(argument: str, value: object) -> float:
    """`value` as a float, or an error when it is not a positive finite number."""
    try:
        number = float(value) if isinstance(value, (SupportsFloat, SupportsIndex, str)) else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None:
        raise ArgumentError(argument, "a positive number", quoted(value))
    if not 0 < number < float("inf"):
        raise ArgumentError(argument, "a positive number", value)
    return number


def within(argument: str, value: T, low: float, high: float, *, above: bool = False) -> T:
    """`value`, or an error when it is not a number in [low, high], or in (low, high] with `above`."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        beyond = value <= low if above else value < low
        if not beyond and value <= high:
            return value
    raise ArgumentError(argument, f"a number in {'(' if above else '['}{low:g}, {high:g}]", quoted(value))


def dimension(argument: str, value: object, *, least: int = 1, most: int = 10**15) -> int:
    """`value` as an int, or an error when it is not a whole number in [least, most]."""
    number = least - 1
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        try:
            number = operator.index(value)
        except TypeError:  # an array
            number = least - 1
    if number < least:
        raise ArgumentError(argument, f"a whole number ≥ {least}", quoted(value))
    if number > most:
        raise ArgumentError(argument, f"a whole number ≤ {most:,}", value)
    return number


def quoted(value: object) -> str:
    """`value` as Python writes it, whatever it is."""
    try:
        return shown(repr(value))
    except Exception:  # numbers of thousands of digits; objects that cannot describe themselves
        return f"something of type {type(value).__name__} that cannot be printed"


def look_up(kind: str, name: object, table: Mapping[str, T]) -> T:
    """`table[name]`, ignoring case, or an error with the nearest name."""
    for choice, value in table.items():
        if isinstance(name, str) and choice.casefold() == name.casefold():
            return value
    raise UnknownNameError(kind, name, table)
