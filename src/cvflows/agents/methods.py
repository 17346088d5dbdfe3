"""Every named method, as a composition of parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from cvflows.errors import ArgumentError, look_up

Rule = Literal["sac", "td3", "ddpg"]
Entropy = Literal["prior", "plain", "exact"]
ENTROPIES: tuple[str, ...] = get_args(Entropy)


@dataclass(frozen=True)
class Method:
    """How an agent turns observations into actions, and what its critic is told.

    - `rule`: the update. `ddpg` is `td3` with one critic, no delay and no target noise.
    - `decoder`: from the actor's latent to an action. `map`: a fitted map, latents clipped at ±3 (or in the box, if its
      base is uniform). `box`: the latent is the action, in [-1,1].
    - `critic_sees`: the `latent`, or the action that was `executed`.
    - `entropy`: what stands for log π. `prior`: log μ(â|s) + ‖â‖²/2, the density relative to the map's own; `exact`:
      the density of the action, by the map's log-determinant; `plain`: log μ(â|s).
    - `map`: the kind of map, `auto` by default.
    """

    name: str
    rule: Rule
    decoder: Literal["map", "box"]
    critic_sees: Literal["latent", "executed"]
    entropy: Entropy = "plain"
    map: str = "auto"

    def __post_init__(self) -> None:
        if self.decoder == "box" and self.entropy != "plain":
            raise ArgumentError("entropy", f"plain: {self.name} has no map", self.entropy)
        if self.rule != "sac" and self.entropy != "plain":
            raise ArgumentError("entropy", f"plain: the policy of {self.name} is deterministic", self.entropy)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("SAC+CVFlow", "sac", "map", "latent", "prior"),
        Method("DDPG+CVFlow", "ddpg", "map", "executed"),
        Method("SAC", "sac", "box", "latent"),
        Method("TD3", "td3", "box", "latent"),
        Method("DDPG", "ddpg", "box", "latent"),
    )
}


def method(name: str) -> Method:
    """A named method, whatever its case."""
    return look_up("method", name, METHODS)
