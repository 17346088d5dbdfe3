"""Run every benchmark of this folder, each in its own process, with the flags given."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import benchmarks

APART = {"harness", "turns", "__main__", "learning", "learning_figures", "matrix", "synthetic"}
APART |= {
    "faults",
    "disk",
    "tiny",
    "damage",
    "fuzz",
    "formulas",
    "executed",
    "certified",
    "random_sets",
}  # of the trust benchmark


def main() -> int:
    names = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name not in APART]
    codes = []
    for name in names:
        print(f"== {name}", file=sys.stderr, flush=True)
        codes.append(subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]]).returncode)
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(main())
