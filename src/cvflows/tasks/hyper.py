"""Hyper-parameters of the benchmark, per environment and update rule.

The paper's table, with its learning starts corrected to the 10,000 of the code it builds on, and what it leaves unsaid
(soft updates, buffer sizes, steps) taken from there. Its table has one column for the balls and ships.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cvflows.errors import ArgumentError, dimension, look_up, within


@dataclass(frozen=True)
class Hyper:
    """What a learner is set to.

    After every `train_every` environment steps as many updates follow, times `updates_per_step`; None waits for the
    end of the episode.
    `reward_scale` multiplies rewards for learning; `target_entropy` is what SAC's temperature aims at, None: -d;
    `standardise` makes networks see observations relative to their mean and spread before learning starts.
    `learning_rate` falls linearly to `rate_left` of it over the run.
    `noise` is what deterministic policies explore with; `noise_correlation` how much of it, and of the noise of random
    steps before learning, stays from one step to the next. `frank_wolfe_rate` is the step of NFW.
    """

    steps: int = 1_000_000
    discount: float = 0.99
    tau: float = 0.005
    learning_rate: float = 3e-4
    rate_left: float = 1.0
    hidden: tuple[int, ...] = (256, 256)
    batch: int = 256
    buffer: int = 1_000_000
    learning_starts: int = 10_000
    train_every: int | None = 1
    updates_per_step: int = 1
    standardise: bool = False
    noise: float = 0.1
    noise_correlation: float = 0.0
    reward_scale: float = 1.0
    target_entropy: float | None = None
    frank_wolfe_rate: float = 0.01

    def __post_init__(self) -> None:
        dimension("steps", self.steps, most=2**31 - 1)
        within("discount", self.discount, 0, 1)
        within("tau", self.tau, 0, 1, above=True)
        within("learning_rate", self.learning_rate, 0, 10, above=True)
        within("rate_left", self.rate_left, 0, 1)
        if not isinstance(self.hidden, tuple) or not 0 < len(self.hidden) <= 16:
            raise ArgumentError("hidden", "the widths of 1 to 16 layers, as (256, 256)", self.hidden)
        for width in self.hidden:
            dimension("hidden", width, most=2**14)
        dimension("batch", self.batch, most=2**20)
        dimension("buffer", self.buffer, most=10**9)
        dimension("learning_starts", self.learning_starts, least=0, most=2**31 - 1)
        if self.train_every is not None:
            dimension("train_every", self.train_every, most=10**4)
        dimension("updates_per_step", self.updates_per_step, most=1000)
        if not isinstance(self.standardise, (bool, int)) or self.standardise not in (0, 1):
            raise ArgumentError("standardise", "0 or 1", self.standardise)
        within("noise", self.noise, 0, 100)
        within("noise_correlation", self.noise_correlation, 0, 1)
        within("reward_scale", self.reward_scale, 0, 1e9, above=True)
        if self.target_entropy is not None:
            within("target_entropy", self.target_entropy, -1e6, 1e6)
        within("frank_wolfe_rate", self.frank_wolfe_rate, 0, 1)


_TD3 = Hyper(learning_rate=1e-3, hidden=(400, 300), batch=100, train_every=None)
_REACHER = replace(_TD3, steps=300_000, discount=0.98, buffer=200_000, frank_wolfe_rate=0.05)
_WORLD = Hyper(
    steps=100_000, learning_rate=1e-4, hidden=(64, 64), buffer=100_000, learning_starts=256, frank_wolfe_rate=0.05
)
_CUSTOM = Hyper(learning_starts=1000)  # budgets of people's own environments are smaller than the benchmark's
HYPER: dict[str, dict[str, Hyper]] = {
    "Reacher": {
        "sac": replace(_REACHER, tau=0.02, learning_rate=7.3e-4, batch=256, buffer=300_000, train_every=8),
        "td3": _REACHER,
    },
    "Hopper": {"sac": Hyper(), "td3": replace(_TD3, learning_rate=3e-4, batch=256, train_every=1)},
    "MuJoCo": {"sac": Hyper(), "td3": _TD3},
    "world": {"sac": _WORLD, "td3": _WORLD},
    "custom": {"sac": _CUSTOM, "td3": replace(_CUSTOM, learning_rate=1e-3)},
}


def scaled_to(numbers: Hyper, family: str, steps: int) -> Hyper:
    """`numbers` for a run of `steps`: on environments of people's own, at most a tenth of it is random steps."""
    if family != "custom":
        return numbers
    return replace(numbers, learning_starts=min(numbers.learning_starts, max(steps // 10, 1)))


def hyper(family: str, rule: str) -> Hyper:
    """The settings of an environment family for `sac` or `td3` (which DDPG shares)."""
    return look_up("rule", rule, look_up("family of environments", family, HYPER))


_ARM: dict[str, float | int | tuple[int, ...]] = {
    "hidden": (128, 128),
    "learning_starts": 1000,
    "discount": 0.9,  # its reward is progress: looking far ahead only makes it harder to learn
    "rate_left": 0.1,
}
_CARRIED: dict[str, float | int | tuple[int, ...]] = {"reward_scale": 0.01, "noise": 0.3, "noise_correlation": 0.95}
TUNED: dict[str, dict[str, dict[str, float | int | tuple[int, ...]]]] = {
    "world": {
        "sac": {"learning_rate": 1e-3, "learning_starts": 1000, "target_entropy": 0.0},
        "td3": {"learning_rate": 1e-3, "learning_starts": 1000},
    },
    "Reacher": {"sac": {**_ARM, "learning_rate": 1e-3}, "td3": {**_ARM, "batch": 256, "train_every": 8}},
    "Space-Arena": {"sac": {"reward_scale": 0.01}, "td3": _CARRIED},
    "Space-Corridor": {
        "sac": {
            "reward_scale": 0.1,
            "rate_left": 0.1,
            "standardise": True,
            "noise_correlation": 0.95,
            "learning_starts": 10_000,
        },
        "td3": {**_CARRIED, "learning_starts": 10_000},
    },
}
"""What was measured to work better here than the paper's table, by family, then by task."""


def tuned(task: str, family: str, rule: str) -> Hyper:
    """The paper's settings with what was measured to work better."""
    changes = {**TUNED.get(family, {}).get(rule, {}), **TUNED.get(task, {}).get(rule, {})}
    return replace(hyper(family, rule), **changes)  # type: ignore[arg-type]
