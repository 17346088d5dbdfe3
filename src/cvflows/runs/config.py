"""What a run is: a task, a method, a seed and every number that matters, with a fingerprint of all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from cvflows.agents.methods import Method, method, with_map
from cvflows.agents.settings import Settings, as_text
from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.learned import FORMS
from cvflows.constraints.spec import describe, is_same
from cvflows.constraints.spec import fingerprint as rows_at_samples
from cvflows.errors import ArgumentError, dimension, look_up, quoted
from cvflows.maps.base import ActionMap
from cvflows.maps.kinds import KINDS
from cvflows.maps.store import map_digest
from cvflows.tasks.base import Task

MOST_SEED = 2**32 - 1


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
    - `evaluate_every` steps, `evaluation_episodes` are played without exploring; `final_episodes` at the end.
    - `checkpoint_every` steps, at the next end of an episode, everything is saved.
    - `settings`: of the method's algorithm; by default the method's own.
    - `inputs`: the constraint and the map, known once a run begins.
    """

    task: str
    method: str
    steps: int
    seed: int = 0
    num_envs: int = 1
    map: str | None = None
    form: str = "stopping"
    evaluate_every: int = 5_000
    evaluation_episodes: int = 5
    final_episodes: int = 100
    checkpoint_every: int = 10_000
    settings: Settings | None = None
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
        found = method(self.method)
        if self.settings is None:
            object.__setattr__(self, "settings", found.configure({}))
        if not isinstance(self.settings, found.algorithm.Config):
            raise ArgumentError(
                "settings", f"{found.algorithm.Config.__name__}, of {found.name}", quoted(self.settings)
            )

    @property
    def plan(self) -> RunConfig:
        """The same settings before the run began: `inputs` are not known."""
        return replace(self, inputs=None)

    def as_json(self) -> dict[str, Any]:
        """JSON-ready, with its fingerprint."""
        return {**self._plain(), "fingerprint": self.fingerprint}

    def _plain(self) -> dict[str, Any]:
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        inputs = None if self.inputs is None else asdict(self.inputs)
        return {**values, "settings": self.chosen.as_json(), "inputs": inputs}

    @property
    def chosen(self) -> Settings:
        """The settings of the algorithm."""
        assert self.settings is not None
        return self.settings

    @property
    def random_steps(self) -> int:
        """Steps at the start that take random actions."""
        return int(getattr(self.settings, "learning_starts", 0))

    @property
    def fingerprint(self) -> str:
        """Twelve letters that change with any setting."""
        return fingerprint(self._plain())

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunConfig:
        """The config that `as_json` wrote."""
        values = {name: value for name, value in data.items() if name != "fingerprint"}
        numbers = method(values["method"]).algorithm.Config(**values.pop("settings"))
        inputs = values.pop("inputs", None)
        known = None if inputs is None else Inputs.from_json(inputs)
        return cls(**values, settings=numbers, inputs=known)


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
    changes = dict(overrides or {})
    numbers = found.configure({}, preset, task.name, task.family)
    usual = found.algorithm.presets.steps.get(task.family, 1_000_000)
    if steps is not None and task.family == "custom":
        numbers = found.algorithm.scaled_to(numbers, dimension("steps", steps, most=2**31 - 1))
    numbers = found.check_changes(changes, numbers)
    options.setdefault("num_envs", found.algorithm.side_by_side)
    return RunConfig(task.name, found.name, usual if steps is None else steps, settings=numbers, **options)


def only_random(config: RunConfig, until: int) -> str | None:
    """A sentence that says so where training up to step `until` would only take random steps."""
    starts = config.random_steps
    if until > starts:
        return None
    return (
        f"nothing is learned by step {until:,}: the first {starts:,} steps take random actions to learn from; "
        "take more steps, or set `learning_starts` lower"
    )


def parse_overrides(pairs: Iterable[str]) -> dict[str, str]:
    """From ("learning_rate=1e-3", "hidden=64,64") to values as text, which settings read."""
    values = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign:
            raise ArgumentError("set", "name=value, as in learning_rate=1e-3", pair)
        values[name.strip()] = text
    return values


def as_command(config: RunConfig, family: str) -> str:
    """The command that repeats a run on a task of the catalogue, whose family of environments is given."""
    found = method(config.method)
    usual = found.configure({}, "tuned", config.task, family)
    words = [f"cvflows train {config.task} --method {config.method} --steps {config.steps} --seed {config.seed}"]
    defaults = {entry.name: entry.default for entry in fields(RunConfig)} | {"num_envs": found.algorithm.side_by_side}
    for name, default in defaults.items():
        value = getattr(config, name)
        if name not in ("task", "method", "steps", "seed", "settings", "inputs") and value != default:
            words.append(f"--{'kind' if name == 'map' else name.replace('_', '-')} {value}")
    words += [f"--set {name}={as_text(value)}" for name, value in config.chosen.differences(usual).items()]
    return " ".join(words)


def method_of(config: RunConfig) -> Method:
    """The method a config names, with its kind of map."""
    return with_map(method(config.method), config.map)
