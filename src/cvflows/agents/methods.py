"""Every named method, as a composition of parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from cvflows.errors import ArgumentError, look_up

Entropy = Literal["prior", "plain", "exact"]
ENTROPIES: tuple[str, ...] = get_args(Entropy)


@dataclass(frozen=True)
class Method:
    """How an agent turns observations into actions, and what its critic is told.

    - `rule`: the update, `sac`, `td3` or `ddpg` (`td3` with one critic, no delay and no target noise), or one of your
      own in `cvflows.agents.learner.RULES`.
    - `decoder`: from the actor's latent to an action. `map`: a fitted map, latents clipped at ±3 (or in the box, if its
      base is uniform). `box`: the latent is the action, in [-1,1]. `layer`: such an action, projected, with the
      gradient. `alpha`, `radial`: squashed along a ray of the set.
    - `critic_sees`: the `latent`, or the action that was `executed`.
    - `words`: what it is, in a line.
    - `entropy`: what stands for log π. `prior`: log μ(â|s) + ‖â‖²/2, the density relative to the map's own; `exact`:
      the density of the action, by the map's log-determinant; `plain`: log μ(â|s).
    - `penalty`: weight in the actor's loss of how far the action asked for is from being allowed.
    - `actor`: follows the `gradient` of its value, or regresses on a `frank-wolfe` step.
    - `noise`: added to the `latent` or to the `action`.
    - `correction`: what is done about forbidden actions: the nearest allowed one by `projection`, or, before that, one
      step against the `worst` row.
    - `tries`: actions drawn until one is allowed; with more than one, those rejected are learned from (see
      `accepting.py`).
    - `map`: the kind of map, `auto` by default, fitted to the constraint's `violation` or to feasible `samples`.
    """

    name: str
    rule: str
    decoder: Literal["map", "box", "layer", "alpha", "radial"]
    critic_sees: Literal["latent", "executed"]
    words: str = ""
    entropy: Entropy = "plain"
    penalty: float = 0.0
    actor: Literal["gradient", "frank-wolfe"] = "gradient"
    noise: Literal["latent", "action"] = "latent"
    correction: Literal["projection", "worst"] = "projection"
    tries: int = 1
    map: str = "auto"
    fitted_to: Literal["violation", "samples"] = "violation"

    def __post_init__(self) -> None:
        if self.decoder != "map" and self.entropy != "plain":
            raise ArgumentError("entropy", f"plain: {self.name} has no map", self.entropy)
        if self.rule in ("td3", "ddpg") and self.entropy != "plain":
            raise ArgumentError("entropy", f"plain: the policy of {self.name} is deterministic", self.entropy)


_PRE = "projected outside of learning; the critic sees what was asked for"
_PRO = "projected; the critic sees the projected action, the actor is moved at the one asked for"
_OPT = "a differentiable projection as the actor's last layer"
_ALPHA = "outputs beyond the set are drawn back along a ray to its boundary"
_RADIAL = "outputs are squashed along rays from an inner point"
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("SAC+CVFlow", "sac", "map", "latent", "SAC in the latent space of a fitted map", "prior"),
        Method("DDPG+CVFlow", "ddpg", "map", "executed", "DDPG through a fitted map, with its gradient"),
        Method(
            *("FlowPG", "ddpg", "map", "executed", "DDPG through a flow fitted to feasible samples"),
            noise="action",
            map="realnvp",
            fitted_to="samples",
        ),
        Method("NFW", "td3", "box", "executed", "the actor regresses on Frank-Wolfe steps", actor="frank-wolfe"),
        Method("DPre", "td3", "box", "latent", _PRE),
        Method("DPre+", "td3", "box", "latent", f"{_PRE}; penalty", penalty=1.0),
        Method("SPre", "sac", "box", "latent", _PRE),
        Method("SPre+", "sac", "box", "latent", f"{_PRE}; penalty", penalty=1.0),
        Method("DPro", "td3", "box", "executed", _PRO),
        Method("DPro+", "td3", "box", "executed", f"{_PRO}; penalty", penalty=1.0),
        Method("DOpt", "td3", "layer", "executed", _OPT),
        Method("DOpt+", "td3", "layer", "executed", f"{_OPT}; penalty", penalty=1.0),
        Method("DAlpha", "td3", "alpha", "executed", _ALPHA),
        Method("SAlpha", "sac", "alpha", "executed", _ALPHA),
        Method("DRad", "td3", "radial", "executed", _RADIAL),
        Method("SRad", "sac", "radial", "executed", _RADIAL),
        Method(
            *("SafetyLayer", "ddpg", "box", "executed", "one step against the most violated row, then projected"),
            correction="worst",
        ),
        Method(
            "ARAM", "sac", "box", "latent", "draws until an action is allowed, learns from those rejected", tries=100
        ),
        Method("SAC", "sac", "box", "latent", "in the action box"),
        Method("TD3", "td3", "box", "latent", "in the action box"),
        Method("DDPG", "ddpg", "box", "latent", "in the action box"),
    )
}


def method(name: str) -> Method:
    """A named method, whatever its case."""
    return look_up("method", name, METHODS)
