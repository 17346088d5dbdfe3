"""Guard: what stands between whoever chooses an action and the environment that executes it.

    judge → if forbidden: project → judge again → execute, and say what happened

Wrappers, the training loop and `Agent.predict` call this one class. It judges in double precision, on the very numbers
that will be executed. What it cannot make allowed it does not execute silently: `on_empty` says what happens then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from cvflows.constraints.base import TOLERANCE, AbstractConstraint
from cvflows.constraints.columns import ColumnSet
from cvflows.constraints.convexity import check_convex, is_declared_convex
from cvflows.constraints.judge import judge_of
from cvflows.constraints.numbers import real_numbers
from cvflows.constraints.outcome import Outcome
from cvflows.constraints.project import CERTIFIED, project_samples
from cvflows.errors import ArgumentError, EmptySetError

Fallback = Callable[[np.ndarray], Sequence[float]]
OnEmpty = str | Sequence[float] | Fallback
"""`"raise"`, `"least"`, an action, or a function from a context (context_dim,) to an action."""
HALVINGS = 24
SAMPLES = 4096


class Verdict(NamedTuple):
    """What a guard decided about one action.

    `executed` (dim,) is float32. `outcome` says how it was found: EXACT for an allowed action as it is. `forbidden`:
    whether the action asked for was. Violations are CV = Σ max(row, 0) of the action asked for and of the executed one.
    """

    executed: np.ndarray
    outcome: Outcome
    forbidden: bool
    asked_violation: float
    executed_violation: float
    distance: float

    @property
    def executed_forbidden(self) -> bool:
        """Whether a forbidden action is executed all the same, because no allowed one was found."""
        return self.outcome == Outcome.EMPTY and self.executed_violation > TOLERANCE


class Guard:
    """Lets allowed actions pass as they are and replaces others by the nearest allowed one.

    **Arguments:**

    - `constraint`: the allowed actions.
    - `on_empty`: what to do where no allowed action is found. `"raise"`: an error with the context. `"least"`: execute
      the action that violates least. An action (dim,), or a function of the context that returns one: execute that. By
      default `"raise"`, and `"least"` for constraints that were learned. The verdict's outcome is EMPTY in any case.
    """

    def __init__(self, constraint: AbstractConstraint, on_empty: OnEmpty | None = None) -> None:
        self.constraint, self.judge = constraint, judge_of(constraint)
        self._on_empty = _checked_fallback(constraint, on_empty)
        self._doubted = is_declared_convex(constraint)
        self._calls = 0

    def __call__(self, x: Sequence[float], action: np.ndarray) -> Verdict:
        """The verdict on `action` (dim,) at context `x`, (context_dim,) floats."""
        x, action = list(map(float, x)), _as_action(self.constraint, action)
        self._calls += 1
        if self._doubted and not self._calls & (self._calls - 1):  # at the 1st, 2nd, 4th, … call
            check_convex(self.constraint, np.asarray(x, np.float64), seed=self._calls)
        if self.judge.is_inside(x, action.tolist()):
            return Verdict(action, Outcome.EXACT, False, 0.0, 0.0, 0.0)
        largest, violation = self.judge(x, action.tolist())
        if largest <= TOLERANCE:
            return Verdict(action, Outcome.EXACT, False, violation, violation, 0.0)
        found, outcome = self._nearest(x, action)
        if found is None:
            found, outcome = self._without_allowed(x, action), Outcome.EMPTY
        executed_violation = self.judge(x, found.tolist())[1]
        distance = float(np.linalg.norm(found.astype(np.float64) - action))
        return Verdict(found, outcome, True, violation, executed_violation, distance)

    def _nearest(self, x: Sequence[float], action: np.ndarray) -> tuple[np.ndarray | None, Outcome]:
        """The nearest action that is allowed in double precision; None where there is none to be found."""
        context = np.asarray(x, np.float32)
        projection = project_samples(self.constraint, context, action)
        found, outcome = np.array(projection.action), Outcome(int(projection.outcome))
        if self._is_allowed(x, found):
            return found, min(outcome, Outcome.FALLBACK)  # it is not empty, whatever the solver thought
        found = np.where(np.isfinite(found), found, action)
        anchor = np.array(_anchor(self.constraint)(context))
        if not self._is_allowed(x, anchor):
            sample = self._sampled(x, found)
            if sample is None:
                return None, Outcome.EMPTY
            anchor, outcome = sample, Outcome.FALLBACK
        landed = self._land(x, anchor, found)
        moved = float(np.abs(landed - found).max())
        return landed, min(outcome, Outcome.FALLBACK) if moved <= CERTIFIED else Outcome.FALLBACK

    def _is_allowed(self, x: Sequence[float], action: np.ndarray) -> bool:
        return bool(np.isfinite(action).all()) and self.judge(x, action.tolist())[0] <= TOLERANCE

    def _land(self, x: Sequence[float], inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
        """The last allowed action that bisection finds between an allowed one and a forbidden one."""
        start, way = inside.astype(np.float64), outside.astype(np.float64) - inside
        below, above, best = 0.0, 1.0, inside
        for _ in range(HALVINGS):
            middle = (below + above) / 2
            tried = (start + middle * way).astype(np.float32)
            if self._is_allowed(x, tried):
                below, best = middle, tried
            else:
                above = middle
        return best

    def _sampled(self, x: Sequence[float], near: np.ndarray) -> np.ndarray | None:
        """An allowed action near `near` among many random ones, for sets that the solvers could not enter."""
        context = np.asarray(x, np.float64)
        low, high = (np.asarray(end, np.float64) for end in self.constraint.bounds(jnp.asarray(context, jnp.float32)))
        unit = np.random.default_rng(0).random((SAMPLES, len(near)))
        actions = (low + unit * np.maximum(high - low, 0)).astype(np.float32)
        allowed = actions[self.judge.many(context, actions).max(axis=1) <= TOLERANCE]
        if not len(allowed):
            return None
        if is_declared_convex(self.constraint):
            check_convex(self.constraint, context, actions=allowed)
        return allowed[np.argmin(((allowed - near) ** 2).sum(axis=1))]

    def _without_allowed(self, x: Sequence[float], action: np.ndarray) -> np.ndarray:
        """What is executed where no allowed action was found."""
        context = np.asarray(x, np.float64)
        if isinstance(self._on_empty, str):
            if self._on_empty == "raise":
                raise EmptySetError(
                    f"no action is allowed at context {_shown(context)}: widen the set, or say with `on_empty` what "
                    "to execute then ('least': the action that violates least; or an action or function of your own)"
                )
            least = np.array(project_samples(self.constraint, context.astype(np.float32), action).action)
            return np.clip(np.where(np.isfinite(least), least, 0.0), -1, 1).astype(np.float32)
        given = self._on_empty(context) if callable(self._on_empty) else self._on_empty
        return _own_action(self.constraint, given)


def _checked_fallback(constraint: AbstractConstraint, on_empty: OnEmpty | None) -> OnEmpty:
    if on_empty is None:
        return "least" if constraint.learned else "raise"
    if isinstance(on_empty, str):
        if on_empty not in ("raise", "least"):
            raise ArgumentError("on_empty", "'raise', 'least', an action or a function", repr(on_empty))
        return on_empty
    return on_empty if callable(on_empty) else _own_action(constraint, on_empty).tolist()


def _own_action(constraint: AbstractConstraint, value: object) -> np.ndarray:
    """The user's fallback as an action of the box."""
    action = real_numbers("on_empty", value)
    if action.shape != (constraint.action_dim,) or (np.abs(action) > 1).any():
        raise ArgumentError("on_empty", f"an action of {constraint.action_dim} entries within [-1,1]", action)
    return action.astype(np.float32)


def _as_action(constraint: AbstractConstraint, action: np.ndarray) -> np.ndarray:
    """The action that would be executed: float32, which environments expect."""
    if type(action) is not np.ndarray or action.dtype != np.float32:
        action = real_numbers("action", action).astype(np.float32)
    if action.shape != (constraint.action_dim,):
        raise ArgumentError("action", f"shape ({constraint.action_dim},)", action.shape)
    if not math.isfinite(sum(action.tolist())):
        raise ArgumentError("action", "finite numbers", action)
    return action


@lru_cache
def _anchor(constraint: AbstractConstraint) -> Callable[[np.ndarray], Array]:
    """A function from a context to a point that should be well inside the set."""

    @jax.jit
    def anchor(x: Array) -> Array:
        if constraint.convex:
            return ColumnSet.at(constraint, x[:, None]).find_anchor()[:, 0]
        return project_samples(constraint, x, constraint.centre(x)).action

    return anchor


def _shown(values: np.ndarray) -> str:
    return "(" + ", ".join(f"{value:.6g}" for value in values) + ")"
