"""Every benchmark: what it asks, how long it takes, which files it writes and where their figures are quoted."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Benchmark:
    """A benchmark of this folder.

    - `takes`: on two cores; `needs`: the extra that has its peers.
    - `files`: what it writes beside NAME.json into the folder that --out names; `pictures` into docs/images.
    - `quoted`: pages of docs with its figures.
    - `target`: of the Makefile.
    """

    name: str
    takes: str
    quoted: str
    needs: str = ""
    files: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    target: str = "bench"

    @property
    def command(self) -> str:
        """What writes its files."""
        return f"python -m benchmarks.{self.name} --out results"

    @property
    def written(self) -> tuple[str, ...]:
        """Its files in results/."""
        return (f"{self.name}.json", *self.files)

    @cached_property
    def question(self) -> str:
        """The first sentence of its module."""
        text = ast.get_docstring(ast.parse((HERE / f"{self.name}.py").read_text())) or ""
        line = text.split("\n")[0]
        return line[: line.index("?") + 1] if "?" in line else line


BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("calm", "40 min", "maps.md", files=("calm.jsonl",)),
        Benchmark("deploy", "2 min", "deploy.md", "export"),
        Benchmark("env_speed", "minutes", "tasks.md"),
        Benchmark("flow_comparison", "minutes", "maps.md", pictures=("flow-comparison.png",)),
        Benchmark("latency", "2 min", "results.md", "bench"),
        Benchmark("map_quality", "30 min", "maps.md", files=("map_quality.jsonl",)),
        Benchmark("method_speed", "35 min", "results.md", "solver", pictures=("method-speed.png",)),
        Benchmark("ppo_speed", "4 min", "methods/ppo.md", "bench"),
        Benchmark("projection", "minutes", "projection.md", "solver"),
        Benchmark("safety_layer", "minutes", "statewise.md", files=("safety_layer.jsonl",)),
        Benchmark("suite_scaling", "8 min", "suites.md", "ray"),
        Benchmark("time_to_return", "4 h", "results.md", "bench", files=("time_to_return.jsonl",)),
        Benchmark("training_speed", "12 min", "results.md", "bench"),
        Benchmark("trust", "hours", "reliability.md", files=("trust.jsonl",)),
        Benchmark(
            *("learning", "4 h", "results.md"),
            files=("learning.jsonl", "learning.csv"),
            pictures=("learning.png", "entropy.png", "comparison.png", "violations.png"),
            target="learning",
        ),
        Benchmark(
            *("matrix", "an hour", "methods/README.md"),
            files=("matrix.jsonl", "matrix.csv"),
            target="matrix",
        ),
        Benchmark(
            *("robots", "2 h", "results.md"),
            files=("robots.jsonl",),
            target="robots",
        ),
        Benchmark(
            *("reproduction", "20 h", "reproduction.md"),
            files=("reproduction.jsonl",),
            target="reproduction",
        ),
        Benchmark("off_policy_options", "40 min", "maps.md", files=("off_policy_options.jsonl",)),
        Benchmark("ray_options", "40 min", "maps.md", files=("ray_options.jsonl",)),
        Benchmark(
            *("unchanged", "an hour", "results.md"),
            files=("unchanged.jsonl",),
            target="unchanged",
        ),
        Benchmark("transported", "30 min", "maps.md", files=("transported.jsonl",)),
        Benchmark("uniform", "2 h", "maps.md", files=("uniform.jsonl",), pictures=("uniform.png",)),
    )
}


def listing() -> str:
    """The benchmarks as text."""
    lines = []
    for found in BENCHMARKS.values():
        extra = f", needs the extra `{found.needs}`" if found.needs else ""
        files = [f"results/{name}" for name in found.written] + [f"docs/images/{name}" for name in found.pictures]
        lines += [found.name, f"  {found.question}", f"  takes {found.takes}{extra}; make {found.target}"]
        lines += [f"  writes {', '.join(files)}; quoted in docs/{found.quoted}"]
    return "\n".join(lines)


def table() -> str:
    """The same as Markdown, for results/README.md."""
    lines = ["| files | command | `make` | takes | quoted in |", "|---" * 5 + "|"]
    for found in BENCHMARKS.values():
        files = "<br>".join(f"`{name}`" for name in found.written)
        page = f"[docs/{found.quoted}](../docs/{found.quoted})"
        lines.append(f"| {files} | `{found.command}` | `make {found.target}` | {found.takes} | {page} |")
    return "\n".join(lines)
