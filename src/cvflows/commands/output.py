"""JSON for other programs."""

from __future__ import annotations

import json


def print_json(value: object) -> None:
    """One JSON object on stdout; names that the terminal's encoding does not know are escaped."""
    try:
        print(json.dumps(value, ensure_ascii=False, indent=2))
    except UnicodeEncodeError:
        print(json.dumps(value, indent=2))
