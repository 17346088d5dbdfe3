"""The run-time type checker of the tests: beartype, with int accepted where float is asked for."""

import typing
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps

from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintPepUnsupportedException

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(decorated: Callable) -> Callable:
    """`decorated` with its arguments and results checked, with four exceptions.

    Protocols are checked by the names of their members. Dataclasses with a `__post_init__` check their fields
    themselves, and may convert them. `Self` is not checked: methods are decorated one at a time, and beartype knows it
    only in classes that are decorated whole. Nor are functions with generic named tuples in their signature, which
    beartype does not support.
    """
    hints = getattr(decorated, "__annotations__", {})
    for hint in [*hints.values(), *getattr(decorated, "__globals__", {}).values()]:
        _make_checkable(hint)
    hints.update({name: "object" for name, hint in hints.items() if hint in ("Self", typing.Self)})
    try:
        check = _check(decorated)
    except BeartypeDecorHintPepUnsupportedException:
        return decorated
    return _unless_validated(decorated, check) if decorated.__name__ == "__init__" else check


def _unless_validated(decorated: Callable, check: Callable) -> Callable:
    @wraps(decorated)
    def initialise(self: object, *args: object, **kwargs: object) -> object:
        validated = is_dataclass(self) and hasattr(self, "__post_init__")
        return (decorated if validated else check)(self, *args, **kwargs)

    return initialise


def _make_checkable(hint: object) -> None:
    """Let isinstance take the protocols that occur in a type hint."""
    if isinstance(hint, typing.TypeVar):
        _make_checkable(hint.__bound__)
    elif isinstance(hint, type) and getattr(hint, "_is_protocol", False):
        typing.runtime_checkable(hint)
    for part in typing.get_args(hint):
        _make_checkable(part)
