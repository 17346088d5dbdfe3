"""Settings of algorithms: frozen dataclasses whose fields say what they mean and which values they may have.

    @dataclass(frozen=True)
    class SACSettings(Settings):
        discount: float = setting(0.99, "weight of the next step's value", least=0.0, below=1.0)

Values are checked when an instance is made, wherever they come from: Python, the command line, a file.
"""

from __future__ import annotations

import dataclasses
import operator
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from cvflows.errors import ArgumentError, UnknownNameError, quoted

Value = int | float | bool | str | tuple[int, ...] | None
Field = dataclasses.Field[Any]
WITHIN = {"≥": operator.ge, "≤": operator.le, ">": operator.gt, "<": operator.lt}
LARGEST = 2**31 - 1
HIGHEST = sys.float_info.max


def setting(
    default: Value,
    description: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] = (),
    later: bool = False,
) -> Any:
    """A field of a `Settings` class: its default, what it means, and its range (`above` and `below` are excluded).

    With `later`, the default is what was done before the field existed: records leave it out, and stay comparable.
    """
    limits = {"≥": least, "≤": most, ">": above, "<": below}
    known = {sign: bound for sign, bound in limits.items() if bound is not None}
    about = {"default": default, "description": description, "limits": known, "choices": choices, "later": later}
    return dataclasses.field(default=default, metadata=about)


@dataclass(frozen=True)
class Described:
    """One setting, for help texts."""

    name: str
    default: Value
    allowed: str
    description: str


@dataclass(frozen=True)
class Settings:
    """Base class: checks every field that `setting` made."""

    def __post_init__(self) -> None:
        for entry in dataclasses.fields(self):
            object.__setattr__(self, entry.name, _checked(type(self), entry, getattr(self, entry.name)))

    @property
    def random_steps(self) -> int:
        """Steps at the start of a run that take random actions."""
        return 0

    @property
    def attempts(self) -> int:
        """Actions that are drawn until one is allowed."""
        return 1

    @property
    def correlation(self) -> float:
        """Of exploration noise from one step to the next."""
        return 0.0

    @classmethod
    def names(cls) -> list[str]:
        """What can be set."""
        return [entry.name for entry in dataclasses.fields(cls)]

    @classmethod
    def described(cls) -> list[Described]:
        """Every setting with its default, its range and what it means."""
        return [
            Described(entry.name, entry.metadata["default"], _expected(cls, entry), entry.metadata["description"])
            for entry in dataclasses.fields(cls)
        ]

    def changed(self, changes: Mapping[str, object]) -> Self:
        """The same with some values replaced; text is read as the command line's. Unknown names are refused."""
        fields = {entry.name: entry for entry in dataclasses.fields(self)}
        values = {}
        for name, value in changes.items():
            if name not in fields:
                raise UnknownNameError("setting", name, fields)
            read = _read(type(self), fields[name], value) if isinstance(value, str) else value
            values[name] = _checked(type(self), fields[name], read)
        return dataclasses.replace(self, **values)

    def as_json(self) -> dict[str, Value | list[int]]:
        """JSON-ready."""
        later = {entry.name: entry.default for entry in dataclasses.fields(self) if entry.metadata["later"]}
        kept = {name: value for name, value in vars(self).items() if name not in later or value != later[name]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}

    def differences(self, other: Self) -> dict[str, Value]:
        """What is set differently from `other`."""
        return {name: value for name, value in vars(self).items() if value != getattr(other, name)}


def as_text(value: Value) -> str:
    """A value as the command line takes it: 64,64 or none or 0.001."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "none" if value is None else str(value).casefold() if isinstance(value, bool) else str(value)


def _kinds_of(cls: type[Settings]) -> dict[str, tuple[type, bool]]:
    """Of every field: the type of its values, and whether it may be None."""
    found = {}
    for name, hint in typing.get_type_hints(cls).items():
        parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
        (kind,) = (part for part in parts if part is not type(None))
        found[name] = typing.get_origin(kind) or kind, type(None) in parts
    return found


def _expected(cls: type[Settings], entry: Field) -> str:
    """What a field takes, in words."""
    kind, optional = _kinds_of(cls)[entry.name]
    words = {int: "a whole number", float: "a number", bool: "true or false", tuple: "whole numbers as in 64,64"}
    choices = entry.metadata["choices"]
    text = " or ".join(choices) if choices else words[kind]
    limits = entry.metadata["limits"]
    lowest, highest = limits.get("≥", limits.get(">")), limits.get("≤", limits.get("<"))
    if lowest is not None and highest is not None:
        text += f" in {'[' if '≥' in limits else '('}{lowest:g}, {highest:g}{']' if '≤' in limits else ')'}"
    else:
        text += "".join(f" {sign} {bound:g}" for sign, bound in limits.items())
    return f"{text}, or none" if optional else text


def _read(cls: type[Settings], entry: Field, text: str) -> Value:
    """A value from text; what cannot be read stays text, and is refused by name."""
    kind, optional = _kinds_of(cls)[entry.name]
    plain = text.strip().casefold()
    if optional and plain == "none":
        return None
    try:
        if kind is bool:
            return {"true": True, "false": False, "1": True, "0": False}[plain]
        if kind is tuple:
            return tuple(int(part) for part in text.split(","))
        if kind is int:
            return int(text) if text.strip().lstrip("+-").isdigit() else float(text)
        return float(text) if kind is float else text
    except (ValueError, KeyError):
        return text


def _checked(cls: type[Settings], entry: Field, value: object) -> Value:
    """The value as its field's type, or an error that names the field."""
    kind, optional = _kinds_of(cls)[entry.name]
    if value is None and optional:
        return None
    if kind is str:
        choices = entry.metadata["choices"]
        if not isinstance(value, str) or value not in choices:
            raise UnknownNameError(entry.name, value, choices)
        return str(value)
    expected, limits = _expected(cls, entry), entry.metadata["limits"]
    if kind is bool:
        if not isinstance(value, bool):
            raise ArgumentError(entry.name, expected, quoted(value))
        return value
    if kind is tuple:
        if not isinstance(value, (tuple, list)) or not value:
            raise ArgumentError(entry.name, expected, quoted(value))
        return tuple(int(_number(entry.name, expected, limits, part, whole=True)) for part in value)
    number = _number(entry.name, expected, limits, value, whole=kind is int)
    return int(number) if kind is int else float(number)


def _number(name: str, expected: str, limits: Mapping[str, float], value: object, *, whole: bool) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= HIGHEST:  # NaN is not
        fits = not whole or (float(value).is_integer() and abs(value) <= LARGEST)
        if fits and all(WITHIN[sign](value, bound) for sign, bound in limits.items()):
            return value
    raise ArgumentError(name, expected, quoted(value))
