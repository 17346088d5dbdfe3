"""List the benchmarks, or run them, each in its own process.

python -m benchmarks                    # what there is, what it takes, where it writes
python -m benchmarks --quick            # a short look at each
python -m benchmarks --out results      # those of `make bench`
python -m benchmarks latency --check    # some of them
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from benchmarks.catalogue import BENCHMARKS, listing


def main(words: list[str]) -> int:
    """The largest exit code of the benchmarks that ran."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="List the benchmarks, or run them.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; by default those of `make bench`")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, about a minute each")
    parser.add_argument("--json", action="store_true", help="print one JSON object each")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bar is missed")
    parser.add_argument("--out", metavar="FOLDER", help="keep the figures there")
    flags = parser.parse_args(words)
    for name in flags.names:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark {name!r}: choose from {', '.join(BENCHMARKS)}")
    if not words:
        print(listing())
        return 0
    passed = [f"--{name}" for name in ("quick", "json", "check") if getattr(flags, name)]
    passed += [] if flags.out is None else ["--out", flags.out]
    usual = [name for name, found in BENCHMARKS.items() if flags.quick or found.target == "bench"]
    codes = {}
    for name in flags.names or usual:
        print(f"== {name}", file=sys.stderr, flush=True)
        codes[name] = subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *passed]).returncode
    failed = [name for name, code in codes.items() if code]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return max(codes.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
