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

from cvflows.constraints.base import TOLERANCE, AbstractConstraint, Samples
from cvflows.constraints.columns import ColumnSet
from cvflows.constraints.convexity import check_convex, is_declared_convex
from cvflows.constraints.judge import judge_of
from cvflows.constraints.numbers import real_numbers
from cvflows.constraints.outcome import Outcome
from cvflows.constraints.precision import double_precision
from cvflows.constraints.project import CERTIFIED, project_samples, project_wide
from cvflows.constraints.thin import widened
from cvflows.errors import ArgumentError, EmptySetError

Fallback = Callable[[np.ndarray], Sequence[float]]
OnEmpty = str | Sequence[float] | Fallback
"""`"raise"`, `"least"`, an action, or a function from a context (context_dim,) to an action."""
Projected = tuple[np.ndarray, Outcome]
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
    def spotless(self) -> bool:
        """Whether the action was allowed without any tolerance, and passed as it is."""
        return not self.forbidden and self.asked_violation == 0.0

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
        self.calls = 0

    def __call__(self, x: Sequence[float], action: Samples) -> Verdict:
        """The verdict on `action` (dim,) at context `x`, (context_dim,) floats."""
        return self._decide(list(map(float, x)), _as_action(self.constraint, action), None)

    def batch(self, x: np.ndarray, actions: np.ndarray) -> list[Verdict]:
        """Verdicts on actions (n, dim) at contexts (n, context_dim), forbidden ones projected together."""
        x, d = real_numbers("x", x), self.constraint.action_dim
        actions = np.asarray(real_numbers("actions", actions), np.float32)
        if actions.ndim != 2 or actions.shape[1] != d:
            raise ArgumentError("actions", f"shape (n, {d})", actions.shape)
        if x.shape != (len(actions), self.constraint.context_dim):
            raise ArgumentError("x", f"shape ({len(actions)}, {self.constraint.context_dim})", x.shape)
        forbidden = np.flatnonzero(~(self.judge.many(x, actions).max(axis=1, initial=-1.0) <= TOLERANCE))
        projected = dict(zip(forbidden.tolist(), self._project(x[forbidden], actions[forbidden]), strict=True))
        pairs = enumerate(zip(x.tolist(), actions, strict=True))
        return [self._decide(context, action, projected.get(index)) for index, (context, action) in pairs]

    def _decide(self, x: list[float], action: np.ndarray, projected: Projected | None) -> Verdict:
        """The verdict, with the projection if it is known already."""
        self.calls += 1
        if self._doubted and not self.calls & (self.calls - 1):  # at the 1st, 2nd, 4th, … call
            check_convex(self.constraint, np.asarray(x), seed=self.calls)
        asked = action.tolist()
        if self.judge.is_inside(x, asked):
            return Verdict(action, Outcome.EXACT, False, 0.0, 0.0, 0.0)
        largest, violation = self.judge(x, asked)
        if largest <= TOLERANCE:
            return Verdict(action, Outcome.EXACT, False, violation, violation, 0.0)
        nearest, outcome = projected or self._project(np.asarray(x)[None], action[None])[0]
        found, outcome = self._allowed(x, np.where(np.isfinite(nearest), nearest, action), outcome)
        if found is None:
            found, outcome = self._without_allowed(x, nearest), Outcome.EMPTY
        executed_violation = self.judge(x, found.tolist())[1]
        return Verdict(found, outcome, True, violation, executed_violation, math.dist(found.tolist(), asked))

    def _project(self, x: np.ndarray, actions: np.ndarray) -> list[Projected]:
        """Projections of actions (n, dim), in double precision for thin sets; few sizes of batches are compiled."""
        if not len(actions):
            return []
        places = np.minimum(np.arange(1 << (len(actions) - 1).bit_length()), len(actions) - 1)
        if (wide := widened(self.constraint)) is not None:
            with double_precision():
                found = project_wide(wide, x[places].astype(np.float64), actions[places].astype(np.float64))
        else:
            found = project_samples(self.constraint, x[places].astype(np.float32), actions[places])
        outcomes = np.asarray(found.outcome)[: len(actions)].tolist()
        return list(zip(np.array(found.action, np.float32)[: len(actions)], map(Outcome, outcomes), strict=True))

    def _allowed(self, x: list[float], near: np.ndarray, outcome: Outcome) -> tuple[np.ndarray | None, Outcome]:
        """`near`, or an allowed action on the way from it to the inside; None where none is to be found."""
        if self._is_allowed(x, near):
            return near, min(outcome, Outcome.FALLBACK)  # the set is not empty, whatever the solver thought
        anchor = np.array(_anchor(self.constraint)(np.asarray(x, np.float32)))
        if not self._is_allowed(x, anchor):
            sample = self._sampled(x, near)
            if sample is None:
                return None, Outcome.EMPTY
            anchor, outcome = sample, Outcome.FALLBACK
        landed = self._land(x, anchor, near)
        moved = float(np.abs(landed - near).max())
        return landed, min(outcome, Outcome.FALLBACK) if moved <= CERTIFIED else Outcome.FALLBACK

    def _is_allowed(self, x: list[float], action: np.ndarray) -> bool:
        return bool(np.isfinite(action).all()) and self.judge(x, action.tolist())[0] <= TOLERANCE

    def _land(self, x: list[float], inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
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

    def _sampled(self, x: list[float], near: np.ndarray) -> np.ndarray | None:
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

    def _without_allowed(self, x: list[float], least: np.ndarray) -> np.ndarray:
        """What is executed where no allowed action was found; `least` violates least, as far as the solver knows."""
        context = np.asarray(x)
        if isinstance(self._on_empty, str):
            if self._on_empty == "raise":
                raise EmptySetError(
                    f"no action is allowed at context {_shown(context)}: widen the set, or say with `on_empty` what "
                    "to execute then ('least': the action that violates least; or an action or function of your own)"
                )
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


def _as_action(constraint: AbstractConstraint, value: Samples) -> np.ndarray:
    """The action that would be executed: float32, which environments expect."""
    action: np.ndarray
    if isinstance(value, np.ndarray) and value.dtype == np.float32 and not isinstance(value, np.ma.MaskedArray):
        action = value
    else:
        action = real_numbers("action", value).astype(np.float32)
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
            return ColumnSet.at(constraint, x[:, None]).find_anchor(patient=True)[:, 0]
        return project_samples(constraint, x, constraint.centre(x)).action

    return anchor


def _shown(values: np.ndarray) -> str:
    return "(" + ", ".join(f"{value:.6g}" for value in values) + ")"
