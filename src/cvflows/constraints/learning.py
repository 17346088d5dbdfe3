"""Learning which actions keep a state safe: signal models, how wrong they are, and what each form needs beside.

How wrong: by default, the largest error on any transition. With an α, a conformal bound (`conformal.py`): it covers a
share 1 - α of steps like those it was learned from, all costs at once; then only steps from safe states count, since a
guard acts nowhere else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cvflows.constraints.conformal import bound, checked_alpha
from cvflows.constraints.learned import FORMS, Costs, LearnedConstraint, Transitions
from cvflows.constraints.signals import SignalModel, fit_signal
from cvflows.errors import ArgumentError

HELD_OUT = 3
"""Sets the choice of held-out transitions apart from whatever else was drawn with the same seed."""
CALIBRATED = 0.3
"""Share of the transitions that are held out where errors are calibrated."""


class Signal(NamedTuple):
    """What was learned about one cost.

    `error` is the held-out error of its predicted change (root mean square), `worst` the largest on any transition,
    `spread` how large that change is; `persistence` is φ. `push` is e, the largest drift that φ does not explain, and
    `strength` the median of S = ‖w‖₁, what full braking takes off. `overpowered` is the share of safe states in which
    the push is stronger than full braking.
    """

    error: float
    worst: float
    spread: float
    persistence: float
    push: float
    strength: float
    overpowered: float


class Learned(NamedTuple):
    """A constraint and how well its signal model predicts; `alpha` is what its errors were calibrated to."""

    constraint: LearnedConstraint
    family: str
    transitions: int
    signals: tuple[Signal, ...]
    alpha: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Figures for machines."""
        costs = [signal._asdict() for signal in self.signals]
        return {"form": self.constraint.form, "model": self.family, "transitions": self.transitions, "costs": costs}

    def excess(self, transitions: Transitions) -> np.ndarray:
        """By how much the change of every row of the constraint exceeds what is predicted, shape (n, rows)."""
        c, following = (
            np.asarray(self.constraint.cost(table), float) for table in (transitions.before, transitions.after)
        )
        return following - c - self.constraint.model.predict(transitions.before, transitions.actions)


def learn_costs(
    transitions: Transitions, cost: Costs, form: str, *, family: str | None, alpha: float | None, seed: int
) -> Learned:
    """The constraint of a `form` whose rows are those of the costs; see `cvflows.learn`."""
    chosen = family or FORMS[form]
    if alpha is not None:
        transitions = from_safe_states(transitions, cost)
    c, following = (np.asarray(cost(table), float) for table in (transitions.before, transitions.after))
    if c.ndim != 2:
        raise ArgumentError("cost", "a vector of costs for every observation", f"shape {c.shape[1:]}")
    held_out = hold_out(len(c), alpha, seed)
    change = following - c

    def fitted(name: str) -> tuple[SignalModel, np.ndarray]:
        train = (transitions.before[~held_out], transitions.actions[~held_out], change[~held_out])
        model = fit_signal(name, *train, drift=form != "paper", seed=seed)
        predicted = model.predict(transitions.before[held_out], transitions.actions[held_out])
        return model, np.sqrt(np.mean((predicted - change[held_out]) ** 2, axis=0))

    model, error = fitted(chosen)
    if family is None and chosen == "affine" and (error > 0.01 * change.std(axis=0)).any():
        richer, less = fitted("quadratic")
        if (less < 0.7 * error).any():
            model, error, chosen = richer, less, "quadratic"
    missed = change - model.predict(transitions.before, transitions.actions)
    worst = np.abs(missed).max(axis=0)
    persistence, excess = _carry_on(model.drift(transitions.after), change)
    strength = model.strength(transitions.after)
    safe = (following <= 0).all(axis=1)
    safe = safe if safe.any() else np.ones_like(safe)
    overpowered = (excess > strength)[safe].mean(axis=0)
    if alpha is None:
        push, tightening = np.maximum(excess.max(axis=0), 0.0), worst
    else:
        push = np.maximum(bound(excess[held_out], alpha), 0.0)
        tightening = calibrated(missed[~held_out], missed[held_out], alpha)
    median = np.median(strength, axis=0)
    nothing = np.zeros(c.shape[1])
    used = (nothing, nothing, nothing if alpha is None else tightening)
    if form == "stopping":
        used = (persistence, push, tightening)
    elif form == "cbf":
        used = (
            1 - _share(persistence, median - push, median, np.maximum(-c[(c <= 0).all(axis=1)], 0)),
            push,
            tightening,
        )
    constraint = LearnedConstraint(cost, form, model, *(tuple(map(float, values)) for values in used))
    signals = zip(error, worst, change.std(axis=0), persistence, push, median, overpowered, strict=True)
    return Learned(constraint, chosen, len(c), tuple(Signal(*map(float, signal)) for signal in signals), alpha)


def hold_out(count: int, alpha: float | None, seed: int) -> np.ndarray:
    """Which of the transitions are not learned from, as a mask."""
    share = 0.1 if alpha is None else CALIBRATED
    held_out = np.random.default_rng([seed, HELD_OUT]).random(count) < share
    if held_out.all() or not held_out.any():
        raise ArgumentError("transitions", "enough of them to learn from and to test on", count)
    return held_out


def from_safe_states(transitions: Transitions, cost: Costs) -> Transitions:
    """The transitions from states in which every cost is ≤ 0."""
    safe = np.all(np.asarray(cost(transitions.before)) <= 0, axis=1)
    if not np.any(safe):
        raise ArgumentError("transitions", "some that begin in a safe state", f"{len(transitions)}, none of which does")
    return transitions[np.flatnonzero(safe)]


def calibrated(trained: np.ndarray, held_out: np.ndarray, alpha: float | None) -> np.ndarray:
    """Tightenings q·σ_i of rows with errors (n, rows): all of them together cover a share 1 - α of the steps.

    σ_i is the spread of the errors `trained`; q the conformal bound of the largest `held_out` error in units of σ.
    Without an α, the largest error of all.
    """
    if alpha is None:
        return np.maximum(np.concatenate([trained, held_out]).max(axis=0), 0.0)
    spread = np.sqrt(np.mean(trained**2, axis=0)) + 1e-12
    return np.maximum(bound((held_out / spread).max(axis=1), checked_alpha(alpha)), 0.0) * spread


def _carry_on(drift: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """φ, and what it does not explain of every next drift: drift - φ·(change of this step).

    φ is the slope of a regression with an intercept: a constant push is a push, not persistence.
    """
    centred = change - change.mean(axis=0)
    persistence = np.clip((drift * centred).sum(axis=0) / np.maximum((centred**2).sum(axis=0), 1e-300), 0.0, 1.0)
    return persistence, drift - persistence * change


def _share(persistence: np.ndarray, brake: np.ndarray, strength: np.ndarray, far: np.ndarray) -> np.ndarray:
    """κ: the largest share of the distance to a limit that a step may use up, so that braking can follow.

    Where a step used up κd of the distance d, the next may use up κ(1-κ)d of the rest; what persists, φκd, less the
    braking S - e, must be no more. So κ = (1-φ)/2 + √((1-φ)²/4 + (S-e)/d), at the largest distance seen in safe states.
    """
    distance = np.maximum(far.max(axis=0) if len(far) else np.ones_like(brake), 1e-9)
    lost = (1 - persistence) / 2
    return np.clip(lost + np.sqrt(lost**2 + np.maximum(brake, 0.1 * strength) / distance), 0.0, 1.0)
