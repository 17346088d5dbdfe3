"""What machines read."""

from __future__ import annotations

import json
from typing import Any


def print_json(value: Any) -> None:
    """One JSON object on stdout; names that the terminal's encoding does not know are escaped."""
    try:
        print(json.dumps(value, ensure_ascii=False, indent=2))
    except UnicodeEncodeError:
        print(json.dumps(value, indent=2))
