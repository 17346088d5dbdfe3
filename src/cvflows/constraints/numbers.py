"""Arrays from what users pass: real numbers only, and nothing that numpy would convert without a word."""

from __future__ import annotations

import numpy as np

from cvflows.errors import ArgumentError

LARGEST = float(np.finfo(np.float32).max)


def real_numbers(name: str, value: object, expected: str = "an array of numbers") -> np.ndarray:
    """`value` as a new float64 array.

    Refuses what a conversion would change: text, complex numbers (their imaginary part), masked arrays (their mask),
    truth values, integers that are too large, NaN, infinity and what single precision cannot hold.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(name, expected, "a masked array")
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "fiu":
            if given.dtype.kind != "O":
                raise ArgumentError(name, expected, _kind(given))
            if not all(_is_number(entry) for entry in given.ravel()):  # integers beyond 64 bits are objects
                raise ArgumentError(name, expected, type(value).__name__)
        numbers = np.array(given, np.float64)
    except OverflowError:
        raise ArgumentError(name, "numbers that single precision can hold", "a larger one") from None
    except (TypeError, ValueError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(name, expected, type(value).__name__) from None
    if not np.isfinite(numbers).all():
        raise ArgumentError(name, "finite numbers", "NaN or infinity")
    if (np.abs(numbers) > LARGEST).any():
        raise ArgumentError(name, "numbers that single precision can hold", f"{np.abs(numbers).max():g}")
    return numbers


def _is_number(entry: object) -> bool:
    return isinstance(entry, (int, float, np.floating, np.integer)) and not isinstance(entry, bool)


def _kind(array: np.ndarray) -> str:
    words = {"c": "complex numbers", "b": "truth values", "U": "text", "S": "bytes", "M": "dates", "m": "durations"}
    return words.get(array.dtype.kind, str(array.dtype))
