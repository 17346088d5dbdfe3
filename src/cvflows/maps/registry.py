"""The registry of maps: what a kind is, which sets it suits, where `auto` ranks it, how its maps are stored.

A kind is one `MapKind`, stated in the file of its map and added in one line of `kinds.py`, or by `cv.add_map` from a
module of one's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from cvflows.constraints.base import AbstractConstraint
from cvflows.constraints.contexts import ContextDistribution
from cvflows.errors import ArgumentError, UnknownNameError, UnsuitableSetError, look_up, quoted
from cvflows.maps.base import ActionMap
from cvflows.maps.certify import find_failure
from cvflows.maps.charts import Chart

Options = Mapping[str, object]
Maker = Callable[..., ActionMap]
"""make(constraint, contexts, *, seed, **options)."""
WhyNot = Callable[[AbstractConstraint, Options, ContextDistribution | None], str | None]
"""What a set would have to be for a kind to suit it, None where it does.

Contexts are given where the kind is asked for by name: samples may then speak for a set of which nothing is proved.
"""


class SymmetryRecord(TypedDict):
    """A `Symmetry` as JSON."""

    even: list[bool]
    partner: list[int]
    blind: list[bool]


class MapRecord(TypedDict):
    """What makes a map of the same shape again, as `map.json` holds it; settings are keyword arguments of its class."""

    map: str
    settings: dict[str, object]
    chart: NotRequired[dict[str, object]]
    symmetry: NotRequired[SymmetryRecord]
    parts: NotRequired[list[MapRecord]]


def any_set(constraint: AbstractConstraint, options: Options, contexts: ContextDistribution | None) -> str | None:
    """No set is refused."""
    return None


def one_way(constraint: AbstractConstraint) -> tuple[Options, ...]:
    """There is only one way to make the map."""
    return ({},)


def plain_record(map_: ActionMap) -> MapRecord:
    """The class and its settings."""
    return {"map": type(map_).__name__, "settings": map_.settings()}


def plain_map(make: Maker, constraint: AbstractConstraint, record: MapRecord) -> ActionMap:
    """A map that its constraint and settings make."""
    return make(constraint, **record["settings"])


@dataclass(frozen=True)
class MapKind:
    """A kind of map.

    **Arguments:**

    - `name`, `description`: as `make_map` and the command line know it, and one line on what it does.
    - `map`: the class, whose name is what files say; `charts`: those that its maps may fill, for classes that take one.
    - `make`: makes an unfitted map, `make(constraint, contexts, *, seed, **options)`.
    - `why_not`: what a set would have to be, where the kind does not suit it.
    - `rank`: where `auto` tries it, low before high; None if `auto` never takes it. `calm_rank`: where `calm` does.
    - `has_options`: False for maps with nothing to set; `auto` then gives none on. `passes_options`: True for those
      that hand them on to the maps of their parts.
    - `variants`: options to try in turn, until the probe of a certified map finds nothing.
    - `describe`, `rebuild`: a map as plain data and back, without its arrays.
    """

    name: str
    map: type[ActionMap]
    description: str
    make: Maker
    why_not: WhyNot = any_set
    rank: int | None = None
    calm_rank: int | None = None
    has_options: bool = True
    passes_options: bool = False
    charts: tuple[type[Chart], ...] = ()
    variants: Callable[[AbstractConstraint], tuple[Options, ...]] = one_way
    describe: Callable[[ActionMap], MapRecord] = plain_record
    rebuild: Callable[[Maker, AbstractConstraint, MapRecord], ActionMap] = plain_map

    @property
    def options(self) -> tuple[str, ...]:
        """Names of what can be set, apart from the seed."""
        makers: tuple[Callable[..., object], ...] = (self.make, self.map) if self.has_options else ()
        known = [entry for maker in makers for entry in inspect.signature(maker).parameters.values()]
        names = dict.fromkeys(entry.name for entry in known if entry.kind is entry.KEYWORD_ONLY)
        return tuple(name for name in names if name != "seed")

    def unknown(self, options: Options) -> str | None:
        """The first of `options` that this kind does not have."""
        known = options if self.passes_options else self.options
        return next((name for name in options if name not in known), None)

    def check_options(self, options: Options) -> None:
        """Refuse options that this kind does not have."""
        if (name := self.unknown(options)) is not None:
            raise UnknownNameError(f"option of a `{self.name}` map", name, self.options)

    def holds(self, map_: ActionMap) -> bool:
        """Whether a map is of this kind."""
        chart = getattr(map_, "chart", None)
        return type(map_) is self.map and (not self.charts or type(chart) in self.charts)


KINDS: dict[str, MapKind] = {}
AUTOMATIC = ("auto", "calm")
"""Words for the best kind that suits a set: for its density, and for agents that act through it."""


def parse_kind(text: str) -> tuple[str, dict[str, object]]:
    """A kind and its options from text: "ray:softness=0.3,squash=tanh" is a ray map with two options.

    The kind must be known, with options that it has, or be one of `AUTOMATIC`.
    """
    if not isinstance(text, str):
        raise ArgumentError("kind", "the name of a kind of map", quoted(text))
    name, _, rest = text.partition(":")
    kinds = {known: known for known in (*AUTOMATIC, *KINDS)}
    options: dict[str, object] = {}
    for pair in rest.split(",") if rest.strip() else ():
        option, sign, value = pair.partition("=")
        if not sign:
            raise ArgumentError("kind", "a kind of map, with options as in ray:softness=0.3,squash=tanh", text)
        options[option.strip()] = _value(value.strip())
    found = look_up("kind of map", name.strip(), kinds)
    if found in KINDS:
        KINDS[found].check_options(options)
    return found, options


def _value(text: str) -> object:
    """Text as a whole number, a number or a truth value, where it is one."""
    for parse in (int, float):
        try:
            return parse(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.casefold(), text)


def add_map(kind: MapKind) -> MapKind:
    """Make a kind of map known by its name, to `make_map`, files, methods and the command line."""
    if KINDS.get(kind.name) == kind:
        return kind
    if kind.name.casefold() in (*AUTOMATIC, *(name.casefold() for name in KINDS)):
        raise ArgumentError("name", "one that no other kind of map has", kind.name)
    known = {other.map.__name__: other for other in KINDS.values()}.get(kind.map.__name__)
    if known is not None and (known.map, known.rebuild) != (kind.map, kind.rebuild):
        raise ArgumentError("map", "a class whose name and storage no other kind uses differently", kind.map.__name__)
    KINDS[kind.name] = kind
    return kind


def make_map(
    kind: str, constraint: AbstractConstraint, contexts: ContextDistribution, *, seed: int = 0, **options: object
) -> ActionMap:
    """An unfitted map of a named kind: `make_map("auto", task.constraint, task.contexts)`.

    A map that is feasible by construction is probed before it is returned (see `certify.py`). Where one fails, `auto`
    takes the next kind, in the end `boxspline`, which learns; a kind asked for by name raises an error.

    **Arguments:**

    - `kind`: `boxspline` and `realnvp` learn the set from its violation; `coupling` is the former with couplings;
      `orb`, `slice`, `shell`, `gauge` and `ray` are feasible by construction, and so is `union` where the maps of its
      parts are. `auto` takes the first whose density is, or becomes, uniform; `calm` the first that agents learn best
      through. Options may follow, as in `ray:softness=0.3`.
    - `contexts`: p_S; scales, symmetries and radii are read off its samples and the constraint's rows.
    - `options`: of the map's class, such as `base="uniform"`, `splines=False`, `bins`, `width`.
    """
    if contexts.size != constraint.context_dim:
        raise ArgumentError("contexts", f"{constraint.context_dim} entries, the context_dim", contexts.size)
    name, written = parse_kind(kind)
    options = {**written, **options}
    automatic = name in AUTOMATIC
    attempts = kinds_for(constraint, options, calm=name == "calm") if automatic else (KINDS[name],)
    if not automatic:
        attempts[0].check_options(options)
        if (reason := attempts[0].why_not(constraint, options, contexts)) is not None:
            raise UnsuitableSetError(reason, constraint)
    failure: object = None
    for attempt in attempts:
        own = {} if automatic and not attempt.has_options else options
        for variant in attempt.variants(constraint):
            try:
                map_ = attempt.make(constraint, contexts, seed=seed, **{**variant, **own})
            except UnsuitableSetError as error:
                if not automatic:
                    raise
                failure = error
                continue
            failure = find_failure(map_, contexts) if map_.certified else None
            if failure is None:
                return map_
    expected = f"a set that a `{name}` map can be certified for (`boxspline` learns any)"
    raise ArgumentError("constraint", expected, f"{constraint}, with {failure}")


def kinds_for(
    constraint: AbstractConstraint, options: Options | None = None, *, calm: bool = False
) -> tuple[MapKind, ...]:
    """The kinds that `auto` tries, or `calm`: those that the set's rows and bounds allow, the best first."""
    given = options or {}

    def rank(kind: MapKind) -> int | None:
        return kind.calm_rank if calm and kind.calm_rank is not None else kind.rank

    ranked = sorted((place, kind.name) for kind in KINDS.values() if (place := rank(kind)) is not None)
    kinds = (KINDS[name] for _, name in ranked)
    return tuple(
        kind
        for kind in kinds
        if (not kind.has_options or kind.unknown(given) is None) and kind.why_not(constraint, given, None) is None
    )


def kind_for(constraint: AbstractConstraint) -> str:
    """The kind that `auto` tries first: certified if the set's rows and bounds allow one."""
    return kinds_for(constraint)[0].name


def kind_of(map_: ActionMap) -> str:
    """The name of a map's kind; of its class, where no kind is known."""
    return next((kind.name for kind in KINDS.values() if kind.holds(map_)), type(map_).__name__)


def describe_map(map_: ActionMap) -> MapRecord:
    """What makes a map of the same shape again."""
    known = next((kind for kind in KINDS.values() if kind.map is type(map_)), None)
    return plain_record(map_) if known is None else known.describe(map_)


def rebuild_map(record: MapRecord, constraint: AbstractConstraint) -> ActionMap:
    """The map of a record, its arrays of the right shapes only."""
    for kind in KINDS.values():
        if kind.map.__name__ == record["map"]:
            return kind.rebuild(kind.map, constraint, record)
    raise ValueError(f"no kind of map has the class {record['map']}")


def find_chart(name: object) -> Callable[..., Chart]:
    """The class of a chart by its name."""
    for kind in KINDS.values():
        for chart in kind.charts:
            if chart.__name__ == name:
                return chart
    raise ValueError(f"no kind of map has the chart {name}")
