"""What a run is: a task, a method, a seed and every number that matters, with a fingerprint of all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from cvflows.agents.base import Settings
from cvflows.agents.methods import ENTROPIES, Entropy, Method, method
from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.learned import FORMS
from cvflows.constraints.spec import describe, is_same
from cvflows.constraints.spec import fingerprint as rows_at_samples
from cvflows.errors import ArgumentError, UnknownNameError, dimension, look_up, quoted
from cvflows.maps.base import ActionMap
from cvflows.maps.kinds import KINDS
from cvflows.maps.store import map_digest
from cvflows.tasks.base import Task
from cvflows.tasks.hyper import Hyper, scaled_to, tuned

MOST_SEED = 2**32 - 1
FEWEST = 30
"""Observations that a mean and a spread are taken from."""


@dataclass(frozen=True)
class Inputs:
    """What a run was given beside its settings: SHA-256 of the constraint and of the map.

    Of a constraint with functions in it, the values of its rows at a few samples instead.
    """

    constraint: str | tuple[float, ...]
    map: str | None = None

    @classmethod
    def of(cls, constraint: AbstractConstraint, map_: ActionMap | None) -> Inputs:
        """Those of a constraint and a map."""
        data = describe(constraint)
        rows = tuple(rows_at_samples(constraint)) if data is None else fingerprint(data, 64)
        return cls(rows, None if map_ is None else map_digest(map_))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Inputs:
        """What `asdict` gave."""
        rows = data["constraint"]
        return cls(rows if isinstance(rows, str) else tuple(map(float, rows)), data["map"])


@dataclass(frozen=True)
class RunConfig:
    """Settings of one training run.

    - `steps`: environment steps, over all `num_envs` environments.
    - `map`: kind of map instead of the method's own, where it has one; `form`: of a learned constraint.
    - `entropy`: `prior`, `plain` or `exact` instead of the method's own (see `Method`).
    - `evaluate_every` steps, `evaluation_episodes` are played without exploring; `final_episodes` at the end.
    - `checkpoint_every` steps, at the next end of an episode, everything is saved.
    - `inputs`: the constraint and the map, known once a run begins.
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
    inputs: Inputs | None = None

    def __post_init__(self) -> None:
        for name in ("task", "method", "form"):
            if not isinstance(getattr(self, name), str):
                raise ArgumentError(name, "a name", quoted(getattr(self, name)))
        for name, most in (
            ("steps", 2**31 - 1),
            ("num_envs", 4096),
            ("evaluate_every", 10**12),
            ("evaluation_episodes", 10**6),
            ("final_episodes", 10**6),
            ("checkpoint_every", 10**12),
        ):
            dimension(name, getattr(self, name), most=most)
        dimension("seed", self.seed, least=0, most=MOST_SEED)
        look_up("form", self.form, FORMS)
        if self.map is not None:
            look_up("map", self.map, KINDS)
        if self.hyper.standardise and self.hyper.learning_starts < FEWEST:
            raise ArgumentError("learning_starts", f"≥ {FEWEST} steps to standardise by", self.hyper.learning_starts)
        method_of(self)

    @property
    def settings(self) -> Settings:
        """The learner's share of the hyper-parameters."""
        shared = {entry.name for entry in fields(Settings)} & {entry.name for entry in fields(Hyper)}
        numbers = {name: getattr(self.hyper, name) for name in shared}
        learning = max(self.steps - self.hyper.learning_starts, 1)
        return Settings(**numbers, updates=min(learning * self.hyper.updates_per_step, 2**31 - 1))

    @property
    def plan(self) -> RunConfig:
        """The same settings before the run began: `inputs` are not known."""
        return replace(self, inputs=None)

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
        inputs = values.pop("inputs", None)
        known = None if inputs is None else Inputs.from_json(inputs)
        return cls(**values, hyper=Hyper(**numbers), inputs=known)


def fingerprint(settings: Mapping[str, Any], letters: int = 12) -> str:
    """Letters of a hash. That of a stored config stays the same when later versions know more settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:letters]


def with_inputs(config: RunConfig, constraint: AbstractConstraint, map_: ActionMap | None) -> RunConfig:
    """The config with its constraint and map recorded; refused where it recorded others before."""
    found, known = Inputs.of(constraint, map_), config.inputs
    if known is None:
        return replace(config, inputs=found)
    rows = known.constraint
    same = found.constraint == rows if isinstance(rows, str) else is_same(constraint, list(rows))
    if not same:
        raise ArgumentError("task", "the constraint that this run was trained with", constraint)
    if found.map != known.map:
        raise ArgumentError("map", f"the map that this run was trained with, {known.map}", found.map)
    return config


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
    if not isinstance(preset, str) or preset not in ("tuned", "paper"):
        raise UnknownNameError("preset", preset, ("tuned", "paper"))
    rule = "sac" if found.rule == "sac" else "td3"
    numbers = tuned(task.name, task.family, rule) if preset == "tuned" else task.hyper(rule)
    if steps:
        numbers = scaled_to(numbers, task.family, steps)
    numbers = override(numbers, overrides or {})
    return RunConfig(task.name, found.name, numbers.steps if steps is None else steps, hyper=numbers, **options)


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
            value = tuple(value) if isinstance(value, (tuple, list)) else value
        elif value is not None and not isinstance(value, (int, float)):
            raise ArgumentError(name, "a number", quoted(value))
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
        if entry.name not in ("task", "method", "steps", "seed", "hyper", "inputs") and value != entry.default:
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
    if not isinstance(config.entropy, str) or config.entropy not in ENTROPIES:
        raise UnknownNameError("entropy", config.entropy, ENTROPIES)
    return replace(found, entropy=config.entropy)
