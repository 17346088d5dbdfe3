"""Every named task, as data.

Indices are those of the Gymnasium v5 observations, and of the nine-entry Reacher, where θ₂ is stored as θ₂/3 and joint
speeds as a tenth of rad/s (the bounds of R+O and R+M are meant for these).
"""

from __future__ import annotations

import math

from cvflows.constraints.contexts import Normal, Product, Uniform
from cvflows.errors import look_up
from cvflows.tasks.base import SetSpec, Task

HOPPER_SPEEDS, HOPPER_ANGLES = (8, 9, 10), (2, 3, 4)
SIX_SPEEDS, SIX_ANGLES = (11, 12, 13, 14, 15, 16), (2, 3, 4, 5, 6, 7)  # Walker2d and HalfCheetah
REACHER_SPEEDS = (6, 8)


def _plain(*indices: int) -> tuple[tuple[int, float], ...]:
    return tuple((index, 1.0) for index in indices)


def _speeds(size: int) -> Uniform:
    return Uniform(size, -10.0, 10.0)


def _angles(size: int) -> Uniform:
    return Uniform(size, -math.pi, math.pi)


def _reacher_power(name: str, bound: float) -> Task:
    return Task(
        name=name,
        environment="Reacher",
        words=f"total joint power at most {bound:g}",
        formula=f"Σ|wᵢaᵢ| ≤ {bound:g}",
        action_dim=2,
        convex=True,
        sets=(SetSpec("Orthoplex", {"dim": 2, "bound": bound}),),
        observation_dim=9,
        reads=_plain(*REACHER_SPEEDS),
        contexts=_speeds(2),
    )


def _spent_power(name: str, environment: str, observation_dim: int, speeds: tuple[int, ...], bound: float) -> Task:
    return Task(
        name=name,
        environment=environment,
        words=f"spent joint power at most {bound:g}",
        formula=f"Σmax(wᵢaᵢ,0) ≤ {bound:g}",
        action_dim=len(speeds),
        convex=True,
        sets=(SetSpec("MaxPower", {"dim": len(speeds), "bound": bound}),),
        observation_dim=observation_dim,
        reads=_plain(*speeds),
        contexts=_speeds(len(speeds)),
        in_paper=environment != "Reacher",
    )


def _power_and_lean(name: str, environment: str, observation_dim: int, joints: tuple[tuple[int, ...], ...]) -> Task:
    speeds, angles = joints
    d = len(speeds)
    return Task(
        name=name,
        environment=environment,
        words="total joint power at most 10, effort at leaning joints limited",
        formula="Σ|wᵢaᵢ| ≤ 10, Σaᵢ²sin²θᵢ ≤ 0.1",
        action_dim=d,
        convex=True,
        sets=(
            SetSpec("Orthoplex", {"dim": d, "bound": 10.0}, tuple(range(d))),
            SetSpec("SinSquared", {"dim": d, "bound": 0.1}, tuple(range(d, 2 * d))),
        ),
        observation_dim=observation_dim,
        reads=_plain(*speeds, *angles),
        contexts=Product((_speeds(d), _angles(d))),
        in_paper=True,
    )


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="R+L2",
            environment="Reacher",
            words="torque vector inside a disc",
            formula="Σaᵢ² ≤ 0.05",
            action_dim=2,
            convex=True,
            sets=(SetSpec("Ball", {"dim": 2, "radius": math.sqrt(0.05)}),),
            observation_dim=9,
            in_paper=True,
        ),
        Task(
            name="R+D",
            environment="Reacher",
            words="torque vector inside a ring",
            formula="0.04 ≤ Σaᵢ² ≤ 0.05",
            action_dim=2,
            convex=False,
            sets=(SetSpec("Shell", {"dim": 2, "inner": math.sqrt(0.04), "outer": math.sqrt(0.05)}),),
            observation_dim=9,
            in_paper=True,
        ),
        _spent_power("H+M", "Hopper-v5", 11, HOPPER_SPEEDS, 10.0),
        _power_and_lean("H+O+S", "Hopper-v5", 11, (HOPPER_SPEEDS, HOPPER_ANGLES)),
        Task(
            name="H+D",
            environment="Hopper-v5",
            words="torque vector inside a hollow ball",
            formula="1.4 ≤ Σaᵢ² ≤ 1.5",
            action_dim=3,
            convex=False,
            sets=(SetSpec("Shell", {"dim": 3, "inner": math.sqrt(1.4), "outer": math.sqrt(1.5)}),),
            observation_dim=11,
            in_paper=True,
        ),
        _spent_power("W+M", "Walker2d-v5", 17, SIX_SPEEDS, 10.0),
        _power_and_lean("W+O+S", "Walker2d-v5", 17, (SIX_SPEEDS, SIX_ANGLES)),
        Task(
            name="HC+O",
            environment="HalfCheetah-v5",
            words="total joint power at most 20",
            formula="Σ|wᵢaᵢ| ≤ 20",
            action_dim=6,
            convex=True,
            sets=(SetSpec("Orthoplex", {"dim": 6, "bound": 20.0}),),
            observation_dim=17,
            reads=_plain(*SIX_SPEEDS),
            contexts=Normal(6, 0.0, 15.0),
            in_paper=True,
        ),
        Task(
            name="R+N",
            environment="Reacher",
            words="nothing beyond the action box",
            formula="|aᵢ| ≤ 1",
            action_dim=2,
            convex=True,
            sets=(SetSpec("Box", {"dim": 2}),),
            observation_dim=9,
        ),
        _reacher_power("R+O03", 0.3),
        _reacher_power("R+O10", 1.0),
        _reacher_power("R+O30", 3.0),
        _spent_power("R+M", "Reacher", 9, REACHER_SPEEDS, 1.0),
        Task(
            name="R+T",
            environment="Reacher",
            words="push on the fingertip limited",
            formula="a₁² + 2a₁(a₁+a₂)cosθ₂ + (a₁+a₂)² ≤ 0.05",
            action_dim=2,
            convex=True,
            sets=(SetSpec("Tip", {"bound": 0.05}),),
            observation_dim=9,
            reads=((7, 3.0),),
            contexts=_angles(1),
        ),
        Task(
            name="HC+MA",
            environment="HalfCheetah-v5",
            words="power at the thighs, weighted by their moment arms, at most 5",
            formula="w₁a₁sin(θ₁+θ₂+θ₃) + w₄a₄sin(θ₄+θ₅+θ₆) ≤ 5",
            action_dim=6,
            convex=True,
            sets=(SetSpec("MomentArm", {"bound": 5.0}),),
            observation_dim=17,
            reads=_plain(11, 14, *SIX_ANGLES),
            contexts=Product((Normal(2, 0.0, 15.0), _angles(6))),
        ),
    )
}


def task(name: str) -> Task:
    """A named task, whatever its case: `task("H+O+S")`."""
    return look_up("task", name, TASKS)
