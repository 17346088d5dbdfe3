"""JSON for other programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping


def print_json(value: object) -> None:
    """One JSON object on stdout, NaN and infinity as null; names that the terminal does not know are escaped."""
    known = _known(value)
    try:
        print(json.dumps(known, ensure_ascii=False, indent=2, allow_nan=False))
    except UnicodeEncodeError:
        print(json.dumps(known, indent=2, allow_nan=False))


def _known(value: object) -> object:
    """The value with None for what JSON has no number for: a mean of no episodes, say."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _known(one) for key, one in value.items()}
    return [_known(one) for one in value] if isinstance(value, list | tuple) else value
