"""Which bars were missed? Read from the reports that a folder keeps.

python -m benchmarks.bars
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.harness import RESULTS


def missed(folder: Path = RESULTS) -> str:
    """Every bar that a kept report misses, as Markdown."""
    lines = ["| benchmark | figure | measured | bar |", "|---" * 4 + "|"]
    for path in sorted(folder.glob("*.json")):
        report = json.loads(path.read_text())
        for bar in report["bars"]:
            if not bar["ok"]:
                sign = "≥" if bar["value"] < bar["bound"] else "≤"
                cells = (report["benchmark"], bar["name"], f"{bar['value']:.3g}", f"{sign} {bar['bound']:g}")
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(missed(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS))
