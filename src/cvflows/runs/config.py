"""What a run is: a task, a method, a seed and every number that matters, with a fingerprint of all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from cvflows.agents.base import Settings
from cvflows.agents.methods import ENTROPIES, Entropy, Method, method
from cvflows.errors import ArgumentError, UnknownNameError, dimension
from cvflows.tasks.base import Task
from cvflows.tasks.hyper import Hyper, scaled_to, tuned

FEWEST = 30
"""Observations that a mean and a spread are taken from."""


@dataclass(frozen=True)
class RunConfig:
    """Settings of one training run.

    - `steps`: environment steps, over all `num_envs` environments.
    - `map`: kind of map instead of the method's own, where it has one; `form`: of a learned constraint.
    - `entropy`: `prior`, `plain` or `exact` instead of the method's own (see `Method`).
    - `evaluate_every` steps, `evaluation_episodes` are played without exploring; `final_episodes` at the end.
    - `checkpoint_every` steps, at the next end of an episode, everything is saved.
    """

    task: str
    method: str
    steps: int
    seed: int = 0
    num_envs: int = 1
    map: str | None = None
    form: str = "stopping"
    entropy: Entropy | None = None
    evaluate_every: int = 5_000
    evaluation_episodes: int = 5
    final_episodes: int = 100
    checkpoint_every: int = 10_000
    hyper: Hyper = field(default_factory=Hyper)

    def __post_init__(self) -> None:
        for name in (
            "steps",
            "num_envs",
            "evaluate_every",
            "evaluation_episodes",
            "final_episodes",
            "checkpoint_every",
        ):
            dimension(name, getattr(self, name))
        dimension("seed", self.seed, least=0)
        if self.hyper.standardise and self.hyper.learning_starts < FEWEST:
            raise ArgumentError("learning_starts", f"≥ {FEWEST} steps to standardise by", self.hyper.learning_starts)
        method_of(self)

    @property
    def settings(self) -> Settings:
        """The learner's share of the hyper-parameters."""
        shared = {entry.name for entry in fields(Settings)} & {entry.name for entry in fields(Hyper)}
        numbers = {name: getattr(self.hyper, name) for name in shared}
        learning = max(self.steps - self.hyper.learning_starts, 1)
        return Settings(**numbers, updates=learning * self.hyper.updates_per_step)

    def as_json(self) -> dict[str, Any]:
        """JSON-ready, with its fingerprint."""
        return {**asdict(self), "fingerprint": self.fingerprint}

    @property
    def fingerprint(self) -> str:
        """Twelve letters that change with any setting."""
        return fingerprint(asdict(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunConfig:
        """The config that `as_json` wrote."""
        values = {name: value for name, value in data.items() if name != "fingerprint"}
        numbers = dict(values.pop("hyper"))
        numbers["hidden"] = tuple(numbers["hidden"])
        return cls(**values, hyper=Hyper(**numbers))


def fingerprint(settings: Mapping[str, Any]) -> str:
    """Twelve letters of a hash. That of a stored config stays the same when later versions know more settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


def make_config(
    task: Task,
    method_name: str,
    *,
    steps: int | None = None,
    preset: str = "tuned",
    overrides: Mapping[str, Any] | None = None,
    **options: Any,
) -> RunConfig:
    """The config of a task and a method, from a preset and what overrides it.

    `preset` is `tuned`, what was measured to work here, or `paper`, its table. Unknown names are refused with the
    nearest.
    """
    found = method(method_name)
    if preset not in ("tuned", "paper"):
        raise UnknownNameError("preset", preset, ("tuned", "paper"))
    rule = "sac" if found.rule == "sac" else "td3"
    numbers = tuned(task.name, task.family, rule) if preset == "tuned" else task.hyper(rule)
    if steps:
        numbers = scaled_to(numbers, task.family, steps)
    numbers = override(numbers, overrides or {})
    return RunConfig(task.name, found.name, steps or numbers.steps, hyper=numbers, **options)


def only_random(config: RunConfig, until: int) -> str | None:
    """A sentence that says so where training up to step `until` would only take random steps."""
    starts = config.hyper.learning_starts
    if until > starts:
        return None
    return (
        f"nothing is learned by step {until:,}: the first {starts:,} steps take random actions to learn from; "
        "take more steps, or set `learning_starts` lower"
    )


def override(numbers: Hyper, changes: Mapping[str, Any]) -> Hyper:
    """`numbers` with some replaced."""
    known = [entry.name for entry in fields(Hyper)]
    for name, value in changes.items():
        if name not in known:
            raise UnknownNameError("hyper-parameter", name, known)
        if name == "hidden":
            value = tuple(value)
        elif value is not None and not isinstance(value, (int, float)):
            raise ArgumentError(name, "a number", repr(value))
        numbers = replace(numbers, **{name: value})
    return numbers


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """From ("learning_rate=1e-3", "hidden=64,64") to values."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        try:
            numbers = [_number(part) for part in text.split(",")]
        except ValueError:
            raise ArgumentError("set", "name=number, as in learning_rate=1e-3", pair) from None
        values[name] = tuple(numbers) if "," in text or name == "hidden" else numbers[0]
    return values


def as_command(config: RunConfig, family: str) -> str:
    """The command that repeats a run on a task of the catalogue, whose family of environments is given."""
    rule = "sac" if method(config.method).rule == "sac" else "td3"
    usual = tuned(config.task, family, rule)
    words = [f"cvflows train {config.task} --method {config.method} --steps {config.steps} --seed {config.seed}"]
    for entry in fields(RunConfig):
        value = getattr(config, entry.name)
        if entry.name not in ("task", "method", "steps", "seed", "hyper") and value != entry.default:
            words.append(f"--{'kind' if entry.name == 'map' else entry.name.replace('_', '-')} {value}")
    for entry in fields(Hyper):
        value = getattr(config.hyper, entry.name)
        if entry.name != "steps" and value != getattr(usual, entry.name):
            words.append(f"--set {entry.name}={','.join(map(str, value)) if isinstance(value, tuple) else value}")
    return " ".join(words)


def _number(text: str) -> int | float | None:
    if text.casefold() == "none":
        return None
    return int(text) if text.lstrip("-").isdigit() else float(text)


def method_of(config: RunConfig) -> Method:
    """The method a config names, with what it changes."""
    found = method(config.method)
    if config.map is not None:
        found = replace(found, map=config.map)
    if config.entropy is None:
        return found
    if config.entropy not in ENTROPIES:
        raise UnknownNameError("entropy", config.entropy, ENTROPIES)
    return replace(found, entropy=config.entropy)
