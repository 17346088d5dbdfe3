"""Every named method, as a composition of an algorithm, a decoder and what it sets differently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cvflows.agents.base import Algorithm, AnyAlgorithm
from cvflows.agents.decoders import (
    AlphaDecoder,
    BoxDecoder,
    ClipDecoder,
    Decoder,
    LayerDecoder,
    MapDecoder,
    RadialDecoder,
)
from cvflows.agents.ppo import PPO
from cvflows.agents.sac import SAC
from cvflows.agents.settings import Settings, Value
from cvflows.agents.td3 import DDPG, TD3
from cvflows.errors import ArgumentError, UnknownNameError, look_up, quoted

PRESETS = ("tuned", "paper")
FITTED_TO = ("violation", "samples")


@dataclass(frozen=True)
class Method:
    """How an agent turns observations into actions, and learns.

    - `algorithm`, `decoder`: their classes, such as `SAC` and `MapDecoder`.
    - `description`: what it is, in a line.
    - `settings`: what it changes in the algorithm's defaults, and `options` in the decoder's.
    - `map`: the kind of map, with options as in `ray:softness=1`, `auto` by default, fitted to the constraint's
      `violation` or to feasible `samples`; `maps`: other kinds in the tuned preset, by family of environments.
    """

    name: str
    algorithm: type[AnyAlgorithm]
    decoder: type[Decoder]
    description: str = ""
    settings: Mapping[str, Value] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    map: str = "auto"
    maps: Mapping[str, str] = field(default_factory=dict)
    fitted_to: str = "violation"

    def __post_init__(self) -> None:
        for name, base in (("algorithm", Algorithm), ("decoder", Decoder)):
            given = getattr(self, name)
            if not (isinstance(given, type) and issubclass(given, base)):
                raise ArgumentError(name, f"a subclass of {base.__name__}", quoted(given))
        if self.fitted_to not in FITTED_TO:
            raise UnknownNameError("fitted_to", self.fitted_to, FITTED_TO)
        self.configure({})

    def map_for(self, preset: str, family: str) -> str | None:
        """The kind of map that a preset has for a family of `maps`; None for others, which have the method's."""
        return None if family not in self.maps else self.maps[family] if preset == "tuned" else self.map

    @property
    def needs_map(self) -> bool:
        """Whether it acts through a map."""
        return self.decoder.needs_map

    def configure(
        self, changes: Mapping[str, object], preset: str = "tuned", task: str = "", family: str = ""
    ) -> Settings:
        """Its settings: the algorithm's defaults, then a preset for a task, the method's own, and `changes`."""
        if not isinstance(preset, str) or preset not in PRESETS:
            raise UnknownNameError("preset", preset, PRESETS)
        found = self.algorithm.Config().changed(self.algorithm.presets.find(preset, task, family))
        return self.check_changes(changes, found.changed(self.settings))

    def check_changes(self, changes: Mapping[str, object], settings: Settings) -> Settings:
        """`settings` with `changes`; refuses what would do nothing."""
        for name in self.decoder.unused:
            if changes.get(name) is not None:
                raise ArgumentError(name, f"nothing: {self.name} has no use for it", quoted(changes[name]))
        return settings.changed(changes)


_PRE = "projected outside of learning; the critic sees what was asked for"
_PRO = "projected; the critic sees the projected action, the actor is moved at the one asked for"
_OPT = "a differentiable projection as the actor's last layer"
_ALPHA = "outputs beyond the set are drawn back along a ray to its boundary"
_RADIAL = "outputs are squashed along rays from an inner point"
_EXECUTED: dict[str, Value] = {"critic": "executed"}
_PENALTY: dict[str, Value] = {"penalty": 1.0}
_CALM = {"Hopper": "calm", "MuJoCo": "calm"}
"""What robots that walk are tuned with."""
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            *("SAC+CVFlow", SAC, MapDecoder, "SAC in the latent space of a fitted map", {"entropy": "prior"}),
            maps=_CALM,
        ),
        Method(
            *("SAC+CVFlow-plain", SAC, MapDecoder, "the paper's ablation: SAC+CVFlow with the entropy of latents"),
            settings={"entropy": "plain"},
            maps=_CALM,
        ),
        Method("PPO+CVFlow", PPO, MapDecoder, "PPO in the latent space of a calm map", map="calm"),
        Method("PPO", PPO, ClipDecoder, "PPO in the action box"),
        Method(
            *("PPO+Projection", PPO, ClipDecoder, "PPO in the action box; learns from the projected action"),
            settings={"learn_from": "executed"},
        ),
        Method(
            *("PPO+RayMask", PPO, MapDecoder, "PPO in a box that is scaled onto the set, ray by ray"),
            map="ray:softness=1,profile=linear,squash=tanh",
        ),
        Method(
            *("DDPG+CVFlow", DDPG, MapDecoder, "DDPG through a fitted map, with its gradient", _EXECUTED),
            maps=_CALM,
        ),
        Method(
            *("FlowPG", DDPG, MapDecoder, "DDPG through a flow fitted to feasible samples"),
            settings={**_EXECUTED, "explore": "action"},
            map="realnvp",
            fitted_to="samples",
        ),
        Method(
            *("NFW", TD3, BoxDecoder, "the actor regresses on Frank-Wolfe steps"),
            settings={**_EXECUTED, "actor": "frank-wolfe"},
        ),
        Method("DPre", TD3, BoxDecoder, _PRE),
        Method("DPre+", TD3, BoxDecoder, f"{_PRE}; penalty", _PENALTY),
        Method("SPre", SAC, BoxDecoder, _PRE),
        Method("SPre+", SAC, BoxDecoder, f"{_PRE}; penalty", _PENALTY),
        Method("DPro", TD3, BoxDecoder, _PRO, _EXECUTED),
        Method("DPro+", TD3, BoxDecoder, f"{_PRO}; penalty", {**_EXECUTED, **_PENALTY}),
        Method("DOpt", TD3, LayerDecoder, _OPT, _EXECUTED),
        Method("DOpt+", TD3, LayerDecoder, f"{_OPT}; penalty", {**_EXECUTED, **_PENALTY}),
        Method("DAlpha", TD3, AlphaDecoder, _ALPHA, _EXECUTED),
        Method("SAlpha", SAC, AlphaDecoder, _ALPHA, _EXECUTED),
        Method("DRad", TD3, RadialDecoder, _RADIAL, _EXECUTED),
        Method("SRad", SAC, RadialDecoder, _RADIAL, _EXECUTED),
        Method(
            *("SafetyLayer", DDPG, BoxDecoder, "one step against the most violated row, then projected", _EXECUTED),
            options={"correction": "worst"},
        ),
        Method("ARAM", SAC, BoxDecoder, "draws until an action is allowed, learns from those rejected", {"tries": 100}),
        Method("SAC", SAC, BoxDecoder, "in the action box"),
        Method("TD3", TD3, BoxDecoder, "in the action box"),
        Method("DDPG", DDPG, BoxDecoder, "in the action box"),
    )
}


def add_method(added: Method) -> Method:
    """Make a method known by its name, to `Agent`, suites and the command line."""
    if METHODS.setdefault(added.name, added) != added:
        raise ArgumentError("name", "one that no other method has", added.name)
    return added


def method(name: str) -> Method:
    """A named method, whatever its case."""
    return look_up("method", name, METHODS)


def with_map(found: Method, kind: str | None) -> Method:
    """The method with another kind of map, where it has one."""
    return found if kind is None else replace(found, map=kind)
