"""Does a learned constraint keep its limits? Guarded episodes are played; exits are counted and explained.

A held-out error says how well one step is predicted. It does not say whether actions are strong enough to keep the
limits, so the guard is tested: with random actions, and with actions that push at one limit, a = sign(w_i(s)).
"""

from __future__ import annotations

import enum
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np

from cvflows.constraints.learned import SLIVER, Transitions
from cvflows.constraints.learning import Learned
from cvflows.constraints.outcome import Outcome
from cvflows.constraints.ranges import Limits
from cvflows.envs.transitions import checked
from cvflows.envs.worlds import Info
from cvflows.figures import PolicyFigures, SelfTestFigures

if TYPE_CHECKING:
    from cvflows.tasks.base import Task

RANDOM = "random"
STEPS = 200
"""Steps after which an episode of the test ends."""
MOST = 0.01
"""Share of episodes that may leave the limits before a warning says so."""
ROUNDING, SLACK = 1e-6, 1e-3
"""Of a predicted change: rounding, relative to the observation and to the claimed error."""
STREAM = 1
"""Sets the seeds of the test apart from those of the transitions that were learned from."""
Policy = Callable[[np.ndarray], np.ndarray]


class Cause(enum.StrEnum):
    """Why an episode left the limits."""

    EMPTY = "empty"
    """No action was allowed: the limits asked for opposite actions."""
    WRONG_MODEL = "wrong model"
    """The change of the cost was predicted worse than on any transition it was learned from, or as harmless."""
    TOO_WEAK = "too weak"
    """The model was right and the guard braked fully, but the limit was passed."""


ADVICE = {
    Cause.EMPTY: "limits contradict each other near the exit: widen one of them",
    Cause.WRONG_MODEL: "collect more episodes, or choose another family of signal models",
    Cause.TOO_WEAK: "braking comes too late or is too weak: use the form 'stopping', or give actions more strength",
}


@dataclass(frozen=True)
class Exit:
    """The step of an episode that left the limits: which limit was passed, why, and after how many steps.

    `unseen` lists observation entries whose values, just before, were beyond all that the model was learned from.
    """

    limit: str
    cause: Cause
    step: int
    unseen: tuple[int, ...] = ()


@dataclass(frozen=True)
class PolicyTest:
    """Guarded episodes of one policy. Those that `began_outside` the limits are not among the `episodes`.

    `exceeded` counts steps whose change was predicted worse than the constraint allows for.
    """

    policy: str
    episodes: int
    began_outside: int
    steps: int
    projected: int
    exits: tuple[Exit, ...]
    exceeded: int = 0

    @property
    def share(self) -> float:
        """Share of episodes that left the limits; NaN where none began inside."""
        return len(self.exits) / self.episodes if self.episodes else float("nan")

    @property
    def counts(self) -> dict[tuple[str, Cause], int]:
        """How often each limit was passed for each cause, most frequent first."""
        return dict(Counter((exit_.limit, exit_.cause) for exit_ in self.exits).most_common())

    def as_json(self) -> PolicyFigures:
        """JSON-ready."""
        return {
            "policy": self.policy,
            "episodes": self.episodes,
            "began_outside": self.began_outside,
            "left": len(self.exits),
            "steps": self.steps,
            "projected": self.projected,
            "exceeded": self.exceeded,
            "exits": [
                {"limit": limit, "cause": str(cause), "episodes": n} for (limit, cause), n in self.counts.items()
            ],
        }


@dataclass(frozen=True)
class SelfTest:
    """What happened when the guard of a learned constraint was tested."""

    policies: tuple[PolicyTest, ...]
    seconds: float

    @property
    def worst(self) -> PolicyTest:
        """The policy that left the limits most often."""
        return max(self.policies, key=lambda test: test.share if test.episodes else -1.0)

    @property
    def episodes(self) -> int:
        """Episodes that began inside the limits, of all policies."""
        return sum(test.episodes for test in self.policies)

    @property
    def exits(self) -> tuple[Exit, ...]:
        """Every exit, of all policies."""
        return tuple(exit_ for test in self.policies for exit_ in test.exits)

    @property
    def covered(self) -> float:
        """Share of the steps that were predicted as well as the constraint allows for: with an α, 1 - α is claimed."""
        return 1 - sum(test.exceeded for test in self.policies) / max(sum(test.steps for test in self.policies), 1)

    @property
    def unseen(self) -> tuple[int, ...]:
        """Observation entries that were beyond what the model was learned from in at least half of the exits."""
        counts = Counter(index for exit_ in self.exits for index in exit_.unseen)
        return tuple(sorted(index for index, n in counts.items() if 2 * n >= len(self.exits)))

    @property
    def passed(self) -> bool:
        """Whether at most 1 % of the episodes of every policy left the limits, and some began inside."""
        return self.episodes > 0 and self.worst.share <= MOST

    @property
    def problem(self) -> str | None:
        """What is wrong and what to do about it; None where the test was passed."""
        if self.passed:
            return None
        if not self.episodes:
            return "every test episode began outside the limits: nothing is known about whether they can be kept"
        worst = self.worst
        where = ", ".join(f"{limit} {n} times ({cause})" for (limit, cause), n in worst.counts.items())
        advice = [ADVICE[cause] for cause in dict.fromkeys(exit_.cause for exit_ in self.exits)]
        if self.unseen:
            entries = ", ".join(f"s{index}" for index in self.unseen)
            advice.append(f"values of {entries} were met that no learned transition had: limit these too")
        return (
            f"the learned constraint does not keep its limits: with the guard on, {len(worst.exits)} of "
            f"{worst.episodes} episodes left them (policy: {worst.policy}): {where}. "
            f"What to do: {'; '.join(advice)}"
        )

    def as_json(self) -> SelfTestFigures:
        """JSON-ready."""
        return {
            "passed": self.passed,
            "problem": self.problem,
            "unseen": list(self.unseen),
            "covered": self.covered,
            "policies": [test.as_json() for test in self.policies],
            "seconds": round(self.seconds, 3),
        }


def run_self_test(
    task: Task, learned: Learned, seen: np.ndarray, *, episodes: int = 20, steps: int = STEPS, seed: int = 0
) -> SelfTest:
    """Play guarded episodes of at most `steps` steps: with random actions, and pushing at each limit.

    `task` has limits and the constraint of `learned`; `seen` (n, o) are the observations it was learned from.
    Environments are new, and their seeds differ from those of the learned transitions.
    """
    began = time.perf_counter()
    assert task.limits is not None
    trials = _Trials(task, task.limits, learned, seen, steps)
    rng = np.random.default_rng([seed, STREAM])

    def pushing(index: int) -> Policy:
        return lambda observation: np.sign(trials.signal(observation)[1][index])

    policies: dict[str, Policy] = {RANDOM: lambda observation: rng.uniform(-1, 1, task.action_dim)}
    policies |= {f"push at {name}": pushing(index) for index, name in enumerate(task.limits.names)}
    try:
        tests = tuple(trials.run(name, policy, episodes, rng) for name, policy in policies.items())
    finally:
        trials.env.close()
    return SelfTest(tests, time.perf_counter() - began)


class _Trials:
    """A guarded environment in which policies are tested."""

    def __init__(self, task: Task, limits: Limits, learned: Learned, seen: np.ndarray, steps: int) -> None:
        self.limits, self.constraint, self.steps = limits, learned.constraint, steps
        self.low, self.high = seen.min(axis=0), seen.max(axis=0)
        self.claimed = np.array([signal.worst for signal in learned.signals])
        self.learned = learned
        self.env = task.make_env(guard=True)
        self._model = jax.jit(self.constraint.model)

    def signal(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(b, w) of one observation."""
        b, w = self._model(np.asarray(observation, np.float32))
        return np.asarray(b), np.asarray(w)

    def run(self, name: str, policy: Policy, episodes: int, rng: np.random.Generator) -> PolicyTest:
        """`episodes` of a policy."""
        steps = projected = outside = 0
        exits: list[Exit] = []
        played: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for _ in range(episodes):
            before = checked(self.env.reset(seed=int(rng.integers(2**31)))[0])
            if self.limits.passed(before).any():
                outside += 1
                continue
            for step in range(self.steps):
                wanted = policy(before)
                next_observation, _, terminated, truncated, info = self.env.step(wanted)
                after = checked(next_observation)
                steps += 1
                played.append((before, np.asarray(info["executed"]), after))
                projected += bool(info["projected"])
                left = bool(self.limits.passed(after).any())
                if left:
                    exits.append(self._explain(before, wanted, after, info, step + 1))
                if left or terminated or truncated:
                    break
                before = after
        exceeded = self._exceeded(Transitions(*map(np.array, zip(*played, strict=True)))) if played else 0
        return PolicyTest(name, episodes - outside, outside, steps, projected, tuple(exits), exceeded)

    def _exceeded(self, played: Transitions) -> int:
        """How many steps changed some cost by more than was predicted and allowed for."""
        rounding = ROUNDING * np.maximum(1.0, np.abs(played.before).max(axis=1, keepdims=True))
        allowed = np.asarray(self.constraint.error) * (1 + SLACK) + rounding
        return int((self.learned.excess(played) > allowed).any(axis=1).sum())

    def _explain(self, before: np.ndarray, wanted: np.ndarray, after: np.ndarray, info: Info, step: int) -> Exit:
        """Which limit the step from `before` to `after` passed by most, and why."""
        costs = self.limits(np.asarray(after, float))
        limit = int(np.argmax(costs))
        if self._outcome(before, wanted, info) == Outcome.EMPTY:
            cause = Cause.EMPTY
        else:
            drift, slope = (part[limit] for part in self.signal(before))
            effect, strength = float(slope @ np.asarray(info["executed"])), float(np.abs(slope).sum())
            change = costs[limit] - self.limits(np.asarray(before, float))[limit]
            rounding = SLACK * self.claimed[limit] + ROUNDING * max(1.0, float(np.abs(before).max()))
            right = abs(drift + effect - change) <= self.claimed[limit] + rounding
            braking = effect <= -(1 - 2 * SLIVER) * strength
            cause = Cause.TOO_WEAK if right and braking else Cause.WRONG_MODEL
        unseen = np.flatnonzero((before < self.low) | (before > self.high))
        return Exit(self.limits.names[limit], cause, step, tuple(unseen.tolist()))

    def _outcome(self, before: np.ndarray, wanted: np.ndarray, info: Info) -> int:
        """How the guard found the action that it executed."""
        if isinstance(known := info.get("outcome"), int):
            return known
        return int(self.constraint.projection(np.asarray(before, np.float32), np.asarray(wanted, np.float32)).outcome)
