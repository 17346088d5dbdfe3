"""The config of a run: task, method, seed and every setting, with a fingerprint of all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import NotRequired, TypedDict, cast

from cvflows.agents.methods import Method, method, with_map
from cvflows.agents.settings import Settings, as_text
from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.learned import FORMS
from cvflows.constraints.spec import describe, is_same
from cvflows.constraints.spec import fingerprint as rows_at_samples
from cvflows.errors import ArgumentError, dimension, look_up, quoted, within
from cvflows.maps.base import ActionMap
from cvflows.maps.kinds import parse_kind
from cvflows.maps.store import map_digest
from cvflows.tasks.base import Task

MOST_SEED = 2**32 - 1


class InputsRecord(TypedDict):
    """`Inputs` as JSON."""

    constraint: str | list[float]
    map: str | None


class ConfigRecord(TypedDict):
    """A `RunConfig` as JSON."""

    task: str
    method: str
    steps: int
    seed: int
    num_envs: int
    map: str | None
    form: str
    ending: NotRequired[float]
    evaluate_every: int
    evaluation_episodes: int
    final_episodes: int
    checkpoint_every: int
    settings: dict[str, object]
    inputs: InputsRecord | None


@dataclass(frozen=True)
class Inputs:
    """What a run is given besides its settings: SHA-256 of the constraint and of the map.

    For a constraint that contains functions, the values of its rows at a few samples instead.
    """

    constraint: str | tuple[float, ...]
    map: str | None = None

    @classmethod
    def of(cls, constraint: AbstractConstraint, map_: ActionMap | None) -> Inputs:
        """The inputs of a run with this constraint and map."""
        data = describe(constraint)
        rows = tuple(rows_at_samples(constraint)) if data is None else fingerprint(data, 64)
        return cls(rows, None if map_ is None else map_digest(map_))

    @classmethod
    def from_json(cls, data: InputsRecord) -> Inputs:
        """From what `asdict` gave."""
        rows = data["constraint"]
        return cls(rows if isinstance(rows, str) else tuple(map(float, rows)), data["map"])


@dataclass(frozen=True)
class RunConfig:
    """Settings of one training run.

    - `steps`: environment steps, over all `num_envs` environments.
    - `map`: kind of map, with options as in `ray:softness=0.3`, by default the method's own.
    - `form`: of a learned constraint.
    - `ending`: the probability with which a step past a task's limits ends an episode of training.
    - `evaluate_every`: steps between evaluations, of `evaluation_episodes` each, without exploring; `final_episodes`
      are played at the end.
    - `checkpoint_every`: steps between checkpoints, which are written at the end of an episode.
    - `settings`: of the method's algorithm; by default the method's own.
    - `inputs`: hashes of the constraint and the map, known once a run begins.
    """

    task: str
    method: str
    steps: int
    seed: int = 0
    num_envs: int = 1
    map: str | None = None
    form: str = "stopping"
    ending: float = 0.0
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
        within("ending", self.ending, 0.0, 1.0)
        if self.map is not None:
            parse_kind(self.map)
        found = method(self.method)
        if self.settings is None:
            object.__setattr__(self, "settings", found.configure({}))
        if not isinstance(self.settings, found.algorithm.Config):
            raise ArgumentError(
                "settings", f"{found.algorithm.Config.__name__}, of {found.name}", quoted(self.settings)
            )

    @property
    def plan(self) -> RunConfig:
        """The same config without `inputs`, as before the run began."""
        return replace(self, inputs=None)

    def as_json(self) -> dict[str, object]:
        """JSON-ready, with its fingerprint."""
        return {**self._plain(), "fingerprint": self.fingerprint}

    def _plain(self) -> dict[str, object]:
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        inputs = None if self.inputs is None else asdict(self.inputs)
        if not self.ending:
            del values["ending"]  # runs that were written before it was there keep their fingerprints
        return {**values, "settings": self.chosen.as_json(), "inputs": inputs}

    @property
    def chosen(self) -> Settings:
        """The settings of the algorithm."""
        assert self.settings is not None
        return self.settings

    @property
    def random_steps(self) -> int:
        """Steps at the start that take random actions."""
        return self.chosen.random_steps

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that change with any setting."""
        return fingerprint(self._plain())

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> RunConfig:
        """The config that `as_json` wrote; other data raises KeyError, TypeError, ValueError or LookupError."""
        values = {name: value for name, value in data.items() if name not in ("fingerprint", "settings", "inputs")}
        record = cast(ConfigRecord, data)
        make_settings: Callable[..., Settings] = method(record["method"]).algorithm.Config
        inputs = record.get("inputs")
        make: Callable[..., RunConfig] = cls
        return make(
            **values,
            settings=make_settings(**record["settings"]),
            inputs=None if inputs is None else Inputs.from_json(inputs),
        )


def fingerprint(settings: Mapping[str, object], letters: int = 12) -> str:
    """Hexadecimal digits of a hash. A stored config keeps its fingerprint when later versions add settings."""
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
    steps: int | None = None,
    preset: str = "tuned",
    overrides: Mapping[str, object] | None = None,
    seed: int = 0,
    num_envs: int | None = None,
    map: str | None = None,
    form: str | None = None,
    ending: float | None = None,
    evaluate_every: int | None = None,
    evaluation_episodes: int = 5,
    final_episodes: int = 100,
    checkpoint_every: int | None = None,
) -> RunConfig:
    """The config of a task and a method: a preset, with settings of the algorithm replaced by `overrides`.

    `preset` is `tuned`, what was measured to work here, or `paper`, the paper's table. Unknown names are refused with
    the nearest known one. The other arguments are those of `RunConfig`; None takes the algorithm's default.
    """
    found = method(method_name)
    settings = found.configure({}, preset, task.name, task.family)
    usual = found.algorithm.presets.steps.get(task.family, 1_000_000)
    if steps is not None and task.family == "custom":
        settings = found.algorithm.scaled_to(settings, dimension("steps", steps, most=2**31 - 1))
    rhythm = found.algorithm.rhythm
    if ending and task.limits is None:
        raise ArgumentError("ending", f"0: {task.name} has no limits on states", ending)
    return RunConfig(
        task.name,
        found.name,
        usual if steps is None else steps,
        seed=seed,
        num_envs=rhythm.num_envs if num_envs is None else num_envs,
        map=found.map_for(preset, task.family) if map is None else map,
        form=form or task.form,
        ending=task.ending if ending is None else ending,
        evaluate_every=rhythm.evaluate_every if evaluate_every is None else evaluate_every,
        evaluation_episodes=evaluation_episodes,
        final_episodes=final_episodes,
        checkpoint_every=rhythm.checkpoint_every if checkpoint_every is None else checkpoint_every,
        settings=found.check_changes(dict(overrides or {}), settings),
    )


def only_random(config: RunConfig, until: int) -> str | None:
    """A warning where training up to step `until` would only take random steps, else None."""
    starts = config.random_steps
    if until > starts:
        return None
    return (
        f"nothing is learned by step {until:,}: the first {starts:,} steps take random actions to learn from; "
        "take more steps, or set `learning_starts` lower"
    )


def parse_overrides(pairs: Iterable[str]) -> dict[str, str]:
    """From ("learning_rate=1e-3", "hidden=64,64") to text by name, which `Settings.changed` parses."""
    values = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign:
            raise ArgumentError("set", "name=value, as in learning_rate=1e-3", pair)
        values[name.strip()] = text
    return values


def as_command(config: RunConfig, family: str) -> str:
    """The command that repeats a run on a task of the catalogue, whose `family` of environments is given."""
    found = method(config.method)
    usual, kind = found.configure({}, "tuned", config.task, family), found.map_for("tuned", family) or found.map
    parts = [f"cvflows train {config.task} --method {config.method} --steps {config.steps} --seed {config.seed}"]
    defaults = {entry.name: entry.default for entry in fields(RunConfig)} | found.algorithm.rhythm._asdict()
    defaults["map"] = kind
    for name, default in defaults.items():
        value = (config.map or found.map) if name == "map" else getattr(config, name)
        if name not in ("task", "method", "steps", "seed", "settings", "inputs") and value != default:
            parts.append(f"--{'kind' if name == 'map' else name.replace('_', '-')} {value}")
    parts += [f"--set {name}={as_text(value)}" for name, value in config.chosen.differences(usual).items()]
    return " ".join(parts)


def method_of(config: RunConfig) -> Method:
    """The method a config names, with its kind of map."""
    return with_map(method(config.method), config.map)
