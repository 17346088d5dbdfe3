"""What machines read."""

from __future__ import annotations

import json
from typing import Any


def print_json(value: Any) -> None:
    """One JSON object on stdout."""
    print(json.dumps(value, ensure_ascii=False, indent=2))
