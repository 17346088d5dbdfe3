"""Every named task, as data.

Indices are those of the Gymnasium v5 observations, and of the nine-entry Reacher, where θ₂ is stored as θ₂/3 and joint
speeds as a tenth of rad/s (the bounds of R+O and R+M are meant for these).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from cvflows.constraints.contexts import ContextDistribution, Normal, Product, Uniform
from cvflows.constraints.ranges import Limits, Planes, Ranges
from cvflows.errors import look_up
from cvflows.tasks.base import SetSpec, Task

HOPPER_SPEEDS, HOPPER_ANGLES = (8, 9, 10), (2, 3, 4)
SIX_SPEEDS, SIX_ANGLES = (11, 12, 13, 14, 15, 16), (2, 3, 4, 5, 6, 7)  # Walker2d and HalfCheetah
REACHER_SPEEDS = (6, 8)
ENDING = 0.2
"""How likely a step above the limit ends an episode of training, in the velocity tasks."""
NOTHING = Uniform(0, -1.0, 1.0)
"""The distribution of an empty context."""


@dataclass(frozen=True)
class Place:
    """An environment that tasks are set in."""

    title: str
    maker: str
    observation_dim: int
    action_dim: int
    family: str
    settings: dict[str, object] = field(default_factory=dict)


REACHER = Place("Reacher", "cvflows.envs.reacher:Reacher", 9, 2, "Reacher")
HOPPER = Place("Hopper-v5", "cvflows.envs.robots:lean", 11, 3, "Hopper", {"robot": "Hopper-v5"})
WALKER = Place("Walker2d-v5", "cvflows.envs.robots:lean", 17, 6, "MuJoCo", {"robot": "Walker2d-v5"})
CHEETAH = Place("HalfCheetah-v5", "cvflows.envs.robots:lean", 17, 6, "MuJoCo", {"robot": "HalfCheetah-v5"})
ANT = Place("Ant-v5", "Ant-v5", 105, 8, "MuJoCo")
BALL_1D = Place("Ball, 1-D", "cvflows.envs.ball:BallWorld", 3, 1, "world", {"n": 1})
BALL_3D = Place("Ball, 3-D", "cvflows.envs.ball:BallWorld", 9, 3, "world", {"n": 3})
CORRIDOR = Place("Spaceship", "cvflows.envs.spaceship:corridor", 4, 2, "world")
ARENA = Place("Spaceship", "cvflows.envs.spaceship:arena", 4, 2, "world")
POLE = Place("Pole", "cvflows.envs.pole:Pole", 3, 1, "world")
CART_POLE = Place("Cart and pole", "InvertedPendulum-v5", 4, 1, "robot")
TWO_POLES = Place("Cart, two poles", "InvertedDoublePendulum-v5", 9, 1, "robot")
PENDULUM = Place("Pendulum", "cvflows.envs.pendulum:pendulum", 3, 1, "robot", {"torque": 2.0})
STRONG = Place("Pendulum", "cvflows.envs.pendulum:pendulum", 3, 1, "robot", {"torque": 8.0})
QUADROTOR = Place("Quadrotor", "cvflows.envs.quadrotor:Quadrotor", 8, 2, "world")
BIKES_3 = Place("Bikes", "cvflows.envs.bikes:Bikes", 8, 3, "world", {"zones": 3, "total": 90, "least": 10})
BIKES_5 = Place("Bikes", "cvflows.envs.bikes:Bikes", 12, 5, "world", {"zones": 5, "total": 150})


class Reading(TypedDict):
    """Which observation entries a set reads, with their factors, and the p_S that stands for them."""

    reads: tuple[tuple[int, float], ...]
    distribution: ContextDistribution | None


def _task(
    name: str,
    place: Place,
    description: str,
    formula: str,
    *sets: SetSpec,
    reads: tuple[tuple[int, float], ...] = (),
    distribution: ContextDistribution | None = NOTHING,
    limits: Limits | None = None,
    learning: Mapping[str, object] | None = None,
    ending: float = 0.0,
    convex: bool = True,
    star_shaped: bool = True,
    share: float | None = None,
    in_paper: bool = False,
) -> Task:
    return Task(
        name=name,
        environment=place.title,
        description=description,
        formula=formula,
        action_dim=place.action_dim,
        observation_dim=place.observation_dim,
        maker=place.maker,
        settings=place.settings,
        family=place.family,
        allowed=sets,
        reads=reads,
        distribution=distribution,
        limits=limits,
        learning=learning or {},
        ending=ending,
        convex=convex,
        star_shaped=star_shaped,
        share=share,
        in_paper=in_paper,
    )


def _reading(contexts: ContextDistribution | None, *indices: int) -> Reading:
    """Entries as they are, and their p_S."""
    return {"reads": tuple((index, 1.0) for index in indices), "distribution": contexts}


def _speeds(size: int) -> Uniform:
    return Uniform(size, -10.0, 10.0)


def _angles(size: int) -> Uniform:
    return Uniform(size, -math.pi, math.pi)


def _total_power(
    name: str,
    place: Place,
    bound: float,
    contexts: ContextDistribution,
    speeds: tuple[int, ...],
    *,
    share: float,
    in_paper: bool = False,
) -> Task:
    chosen = SetSpec("Orthoplex", {"dim": place.action_dim, "bound": bound})
    description, formula = f"total joint power at most {bound:g}", f"Σ|wᵢaᵢ| ≤ {bound:g}"
    reading = _reading(contexts, *speeds)
    return _task(name, place, description, formula, chosen, **reading, share=share, in_paper=in_paper)


def _spent_power(
    name: str, place: Place, speeds: tuple[int, ...], bound: float, *, share: float, in_paper: bool = False
) -> Task:
    chosen = SetSpec("MaxPower", {"dim": place.action_dim, "bound": bound})
    description, formula = f"spent joint power at most {bound:g}", f"Σmax(wᵢaᵢ,0) ≤ {bound:g}"
    reading = _reading(_speeds(len(speeds)), *speeds)
    return _task(name, place, description, formula, chosen, **reading, share=share, in_paper=in_paper)


def _power_and_lean(name: str, place: Place, joints: tuple[tuple[int, ...], ...], *, share: float) -> Task:
    d = place.action_dim
    return _task(
        name,
        place,
        "total joint power at most 10, effort at leaning joints limited",
        "Σ|wᵢaᵢ| ≤ 10, Σaᵢ²sin²θᵢ ≤ 0.1",
        SetSpec("Orthoplex", {"dim": d, "bound": 10.0}, tuple(range(d))),
        SetSpec("SinSquared", {"dim": d, "bound": 0.1}, tuple(range(d, 2 * d))),
        **_reading(Product((_speeds(d), _angles(d))), *joints[0], *joints[1]),
        share=share,
        in_paper=True,
    )


def _shell(name: str, place: Place, inner: float, outer: float, description: str, *, share: float) -> Task:
    """A hollow ball, its radii given as squares."""
    chosen = SetSpec("Shell", {"dim": place.action_dim, "inner": math.sqrt(inner), "outer": math.sqrt(outer)})
    formula = f"{inner:g} ≤ Σaᵢ² ≤ {outer:g}"
    return _task(name, place, description, formula, chosen, convex=False, star_shaped=False, share=share, in_paper=True)


def _states(
    name: str,
    place: Place,
    description: str,
    formula: str,
    *limits: tuple[int, float, float],
    share: float,
    in_paper: bool = False,
) -> Task:
    """A task of states that must not be left; its context is the whole observation."""
    reading = _reading(None, *range(place.observation_dim))
    return _task(name, place, description, formula, limits=Ranges(limits), **reading, share=share, in_paper=in_paper)


def _learned(
    name: str,
    place: Place,
    description: str,
    formula: str,
    limits: Limits,
    *sets: SetSpec,
    form: str = "backup",
    alpha: float | None = 0.002,
    rounds: int = 2,
    **learning: object,
) -> Task:
    """A task of states that must not be left, learned in another way than the default."""
    chosen = {"form": form, "alpha": alpha, "rounds": rounds, **learning}
    reading = _reading(None, *range(place.observation_dim))
    return _task(name, place, description, formula, *sets, limits=limits, learning=chosen, **reading)


def _velocity(robot: str, observation_dim: int, action_dim: int, limit: float, family: str = "MuJoCo") -> Task:
    """A velocity task of Safety-Gymnasium; the speed is the last entry of the observation."""
    maker, what = "cvflows.envs.velocity:running", "speed" if robot == "Ant" else "forward speed"
    place = Place(f"{robot}-v5", maker, observation_dim, action_dim, family, {"robot": robot})
    limits = Ranges({observation_dim - 1: (-math.inf, limit)})
    description = f"{what} at most {limit:g} m/s"
    model = "affine" if observation_dim > 20 else "quadratic"  # whose number of terms grows with the square
    name, formula = f"{robot}-Velocity", f"v ≤ {limit:g}"
    # A robot that runs cannot stop within a few steps: a guard that keeps room for braking makes it fall.
    how = {"form": "drift", "alpha": 0.001, "rounds": 2, "family": model, "allow_weak": True}
    reading = _reading(None, *range(observation_dim))
    return _task(name, place, description, formula, limits=limits, learning=how, ending=ENDING, **reading)


def _room() -> Planes:
    """0.2 off the walls of the quadrotor's room, and a tilt of at most 0.5."""
    normals: list[list[float]] = [[-1, 0], [1, 0], [0, -1], [0.2, 1]]
    tilts: list[list[float]] = [[0, 0, 0, 0, sign, 0, 0, 0] for sign in (-1, 1)]
    rows = [[*normal, 0, 0, 0, 0, 0, 0] for normal in normals] + tilts
    names = ("x ≥ 0.2", "x ≤ 3.8", "y ≥ 0.2", "y ≤ 2 - 0.2x", "θ ≥ -0.5", "θ ≤ 0.5")
    return Planes(rows, [-0.2, 3.8, -0.2, 2.0, 0.5, 0.5], names)


def _arm() -> Planes:
    """Tip at most 0.15 to the right, both joints at most 10 rad/s (an entry is a tenth of it)."""
    rows = [[1, 0, 1, 0, 0, 0, 0, 0, 0]]
    rows += [[sign * (index == entry) for index in range(9)] for entry in REACHER_SPEEDS for sign in (-1, 1)]
    names = ("tip x ≤ 0.15", "ω₁ ≥ -10", "ω₁ ≤ 10", "ω₂ ≥ -10", "ω₂ ≤ 10")
    return Planes(rows, [0.15, 1.0, 1.0, 1.0, 1.0], names)


def _allocation(name: str, place: Place, total: float) -> Task:
    description = f"{place.settings['total']} bikes shared among {place.action_dim} zones of 40 docks"
    chosen = SetSpec("Sum", {"dim": place.action_dim, "total": total, "low": -1.0, "high": 1.0})
    return _task(name, place, description, f"Σaᵢ = {total:g}", chosen, share=0.0)


_ENTRIES = (
    _task(
        *("R+L2", REACHER, "torque vector inside a disc", "Σaᵢ² ≤ 0.05"),
        SetSpec("Ball", {"dim": 2, "radius": math.sqrt(0.05)}),
        in_paper=True,
        share=0.0393,
    ),
    _shell("R+D", REACHER, 0.04, 0.05, "torque vector inside a ring", share=0.0079),
    _spent_power("H+M", HOPPER, HOPPER_SPEEDS, 10.0, in_paper=True, share=0.942),
    _power_and_lean("H+O+S", HOPPER, (HOPPER_SPEEDS, HOPPER_ANGLES), share=0.123),
    _shell("H+D", HOPPER, 1.4, 1.5, "torque vector inside a hollow ball", share=0.0465),
    _spent_power("W+M", WALKER, SIX_SPEEDS, 10.0, in_paper=True, share=0.721),
    _power_and_lean("W+O+S", WALKER, (SIX_SPEEDS, SIX_ANGLES), share=0.0053),
    _total_power("HC+O", CHEETAH, 20.0, Normal(6, 0.0, 15.0), SIX_SPEEDS, in_paper=True, share=0.143),
    _states(
        "Ball1D", BALL_1D, "ball stays 0.1 inside [0,1]", "0.1 ≤ x ≤ 0.9", (0, 0.1, 0.9), share=0.78, in_paper=True
    ),
    _states(
        *("Ball3D", BALL_3D, "ball stays 0.1 inside [0,1]³", "0.1 ≤ xᵢ ≤ 0.9"),
        *((index, 0.1, 0.9) for index in range(3)),
        share=0.59,
        in_paper=True,
    ),
    _states(
        *("Space-Corridor", CORRIDOR, "ship stays 0.05 off two walls", "0.05 ≤ x₁ ≤ 0.95", (0, 0.05, 0.95)),
        share=0.91,
        in_paper=True,
    ),
    _states(
        *("Space-Arena", ARENA, "ship stays 0.05 off four walls", "0.05 ≤ xᵢ ≤ 0.95"),
        *((index, 0.05, 0.95) for index in range(2)),
        share=0.81,
        in_paper=True,
    ),
    _task("R+N", REACHER, "nothing beyond the action box", "|aᵢ| ≤ 1", SetSpec("Box", {"dim": 2}), share=1.0),
    _total_power("R+O03", REACHER, 0.3, _speeds(2), REACHER_SPEEDS, share=0.0111),
    _total_power("R+O10", REACHER, 1.0, _speeds(2), REACHER_SPEEDS, share=0.0705),
    _total_power("R+O30", REACHER, 3.0, _speeds(2), REACHER_SPEEDS, share=0.311),
    _spent_power("R+M", REACHER, REACHER_SPEEDS, 1.0, share=0.433),
    _task(
        *("R+T", REACHER, "push on the fingertip limited", "a₁² + 2a₁(a₁+a₂)cosθ₂ + (a₁+a₂)² ≤ 0.05"),
        SetSpec("Tip", {"bound": 0.05}),
        reads=((7, 3.0),),
        distribution=_angles(1),
        share=0.0757,
    ),
    _task(
        *("HC+MA", CHEETAH, "power at the thighs, weighted by their moment arms, at most 5"),
        "w₁a₁sin(θ₁+θ₂+θ₃) + w₄a₄sin(θ₄+θ₅+θ₆) ≤ 5",
        SetSpec("MomentArm", {"bound": 5.0}),
        **_reading(Product((Normal(2, 0.0, 15.0), _angles(6))), 11, 14, *SIX_ANGLES),
        share=0.783,
    ),
    _task(
        *("Ant+L2", ANT, "torque vector inside a ball", "Σaᵢ² ≤ 2"),
        SetSpec("Ball", {"dim": 8, "radius": math.sqrt(2)}),
        share=0.223,
    ),
    _states("Pole", POLE, "pole stays 0.1 rad off its limits", "|θ| ≤ 0.9", (0, -0.9, 0.9), share=0.82),
    _velocity("Hopper", 12, 3, 0.7402, "Hopper"),
    _velocity("Walker2d", 18, 6, 2.3415),
    _velocity("HalfCheetah", 18, 6, 3.2096),
    _velocity("Swimmer", 9, 2, 0.2282),
    _velocity("Ant", 28, 8, 2.6222),
    _learned(
        *("InvertedPendulum", CART_POLE, "pole and cart stay off their limits", "|θ| ≤ 0.12, |x| ≤ 0.7"),
        Ranges({1: (-0.12, 0.12), 0: (-0.7, 0.7)}),
    ),
    _learned(
        *("DoublePendulum", TWO_POLES, "both poles and the cart stay off their limits"),
        "|sin θᵢ| ≤ 0.25, |x| ≤ 0.7",
        Ranges({1: (-0.25, 0.25), 2: (-0.25, 0.25), 0: (-0.7, 0.7)}),
        form="stopping",
        allow_weak=True,
    ),
    _learned(
        *("Pendulum-Strong", STRONG, "speed, and power spent, of a motor stronger than gravity"),
        "|ω| ≤ 4, max(ωa, 0) ≤ 2",
        Ranges({2: (-4.0, 4.0)}),
        SetSpec("MaxPower", {"dim": 1, "bound": 2.0}, (2,)),
        form="stopping",
    ),
    _learned(
        *("Pendulum-Weak", PENDULUM, "the same with a motor weaker than gravity", "|ω| ≤ 4, max(ωa, 0) ≤ 2"),
        Ranges({2: (-4.0, 4.0)}),
        SetSpec("MaxPower", {"dim": 1, "bound": 2.0}, (2,)),
        form="stopping",
        allow_weak=True,
    ),
    _learned(
        *("Reacher-Wall", REACHER, "tip left of a wall, joints slow", "x ≤ 0.15, |ωᵢ| ≤ 10"),
        _arm(),
        form="stopping",
        family="quadratic",
        allow_weak=True,
    ),
    _learned(
        *("Quadrotor", QUADROTOR, "quadrotor stays 0.2 off walls and a slanted ceiling, tilts little"),
        "0.2 ≤ x ≤ 3.8, 0.2 ≤ y ≤ 2 - 0.2x, |θ| ≤ 0.5",
        _room(),
    ),
    _allocation("BSS3z", BIKES_3, 1.0),
    _allocation("BSS5z", BIKES_5, 2.5),
)
TASKS: dict[str, Task] = {task.name: task for task in _ENTRIES}


def task(name: str) -> Task:
    """A named task, whatever its case: `task("H+O+S")`."""
    return look_up("task", name, TASKS)
