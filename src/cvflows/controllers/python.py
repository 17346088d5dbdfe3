"""Controller: a plan run in Python, without JAX: for robots, and as the reference that C is compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cvflows.constraints.programs import Program
from cvflows.controllers.plan import FURTHEST, NORM_EPSILON, TOLERANCE, FaultyPlanError, Network, Plan, plan_from
from cvflows.controllers.status import Status, Used
from cvflows.errors import ArgumentError, StoreError
from cvflows.files import Format, as_path, read_record

FORMAT = Format("cvflows controller", 1)
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "silu": lambda x: x / (1 + np.exp(-np.maximum(x, -700))),  # beyond, exp overflows and the result is 0
}


class Decision(NamedTuple):
    """An action (dim,), float32, what became of the policy's, and where it comes from."""

    action: np.ndarray
    status: Status
    used: Used


class Controller:
    """A safe controller: the same decisions, statuses and fallbacks as the C code beside it.

        controller = Controller.load("artefact")
        action, status, _ = controller.act(observation)

    `max_age`: seconds, or any unit of the clock, after which an observation is stale; 0: never.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.max_age = plan, 0.0
        self.last: np.ndarray | None = None
        """The last allowed action."""
        self._actor = _actor(plan.network)
        self._context, self._action, self._rows = map(_function, (plan.context, plan.action, plan.rows))
        self._anchor = None if plan.anchor is None else _function(plan.anchor)
        self._fixed = np.array(plan.fixed, np.float32)
        self._limited = bool(np.isfinite(plan.low).any() or np.isfinite(plan.high).any())

    @classmethod
    def load(cls, path: str | Path) -> Controller:
        """The controller of a folder that `cvflows export` wrote; a file that was changed since is refused."""
        file = as_path("path", path) / "controller.json"
        try:
            return cls(plan_from(read_record(file, FORMAT, ": is this an exported controller?")))
        except FaultyPlanError as error:
            raise StoreError(file, f"does not describe a controller: {error}") from None

    @property
    def observation_dim(self) -> int:
        """Entries of an observation."""
        return self.plan.network.inputs

    @property
    def action_dim(self) -> int:
        """Entries of an action."""
        return len(self._fixed)

    def reset(self) -> None:
        """Forget the last action, as at the start of a new run of the robot."""
        self.last = None

    def act(self, observation: Sequence[float] | np.ndarray, *, age: float = 0.0) -> Decision:
        """What to do at an observation (o,) that was measured `age` ago."""
        seen = self._seen(observation)
        values = seen.tolist()
        reason, policy = self._examined(seen, values, age), None
        if reason == Status.OK:
            policy = self._asked(seen, values)
            if self._is_allowed(self._context(values), policy):
                self.last = policy
                return Decision(policy.copy(), Status.OK, Used.POLICY)
            reason = Status.FALLBACK_CHECK
        return self._replaced(values, policy, reason)

    def fall_back(self, observation: Sequence[float] | np.ndarray) -> Decision:
        """The fallback at an observation, for a caller who missed a deadline or was told to stop."""
        return self._replaced(self._seen(observation).tolist(), None, Status.FALLBACK_ASKED)

    def violation(self, observation: Sequence[float] | np.ndarray, action: Sequence[float] | np.ndarray) -> float:
        """Σ max(row, 0) of an action in double precision; infinite where it is not known."""
        context = self._context(self._seen(observation).tolist())
        return self._excess(context, np.asarray(action, np.float32))

    def _seen(self, observation: Sequence[float] | np.ndarray) -> np.ndarray:
        seen = np.asarray(observation, np.float32)
        if seen.shape != (self.observation_dim,):
            raise ArgumentError("observation", f"shape ({self.observation_dim},)", seen.shape)
        return seen

    def _examined(self, seen: np.ndarray, values: list[float], age: float) -> Status:
        if not math.isfinite(sum(values)):  # finite numbers of single precision have a finite sum of doubles
            return Status.FALLBACK_INPUT
        if self._limited and not ((seen >= self.plan.low) & (seen <= self.plan.high)).all():
            return Status.FALLBACK_RANGE
        if self.max_age > 0 and not 0 <= age <= self.max_age:
            return Status.FALLBACK_STALE
        return Status.OK

    def _asked(self, seen: np.ndarray, values: list[float]) -> np.ndarray:
        found = self._action(self._actor(seen).tolist(), values)
        return np.array([value if abs(value) <= FURTHEST else math.nan for value in found], np.float32)

    def _is_allowed(self, context: list[float], action: np.ndarray) -> bool:
        if not all(map(math.isfinite, context)):
            return False
        return all([row <= TOLERANCE for row in self._rows(context, action.tolist())])

    def _excess(self, context: list[float], action: np.ndarray) -> float:
        if not all(map(math.isfinite, context)):
            return math.inf
        total = sum(max(row, 0.0) if row == row else math.inf for row in self._rows(context, action.tolist()))
        return total if math.isfinite(total) else math.inf

    def _replaced(self, values: list[float], policy: np.ndarray | None, reason: Status) -> Decision:
        """The first known action that is allowed; if none is, the one with the smallest violation."""
        context = self._context(values)
        known: list[tuple[np.ndarray, Used]] = []
        for name in self.plan.order:
            if name == "last" and self.last is not None:
                known.append((self.last, Used.LAST))
            elif name == "anchor" and self._anchor is not None:
                found = self._anchor(context)
                if all(abs(value) <= FURTHEST for value in found):
                    known.append((np.array(found, np.float32), Used.ANCHOR))
            elif name == "fixed":
                known.append((self._fixed, Used.FIXED))
        for action, used in known:
            if self._is_allowed(context, action):
                self.last = action
                return Decision(action.copy(), reason, used)
        if policy is not None and np.isfinite(policy).all():
            known.append((policy, Used.POLICY))
        excess = [self._excess(context, action) for action, _ in known]
        action, used = known[excess.index(min(excess))]
        return Decision(np.clip(action, -1, 1), Status.UNSAFE, used)


def _function(program: Program) -> Callable[..., list[float]]:
    """A program as a function that never raises: what Python calls an error is infinite or NaN, as in C."""
    quick = program.define("program")
    exact = cache(lambda: program.define("program", ieee=True))  # compiled when it is first needed

    def run(*arguments: list[float]) -> list[float]:
        try:
            return quick(*arguments)
        except (ArithmeticError, ValueError):
            with np.errstate(all="ignore"):
                return [float(value) for value in exact()(*(list(map(np.float64, values)) for values in arguments))]

    return run


def _actor(network: Network) -> Callable[[np.ndarray], np.ndarray]:
    """A network in double precision, which is what its C twin computes in."""
    layers = [
        tuple(None if array is None else array.astype(float) for array in vars(layer).values())
        for layer in network.layers
    ]
    mean, factor, free = (array.astype(float) for array in (network.mean, network.factor, network.free))
    activate, last = ACTIVATIONS[network.activation], len(layers) - 1

    def output(x: np.ndarray) -> np.ndarray:
        x = (x - mean) * factor
        if math.isfinite(network.clip):
            x = np.minimum(np.maximum(x, -network.clip), network.clip)
        for index, (weight, bias, scale, shift) in enumerate(layers):
            x = x @ weight + bias
            if scale is not None:
                centred = x - x.mean()
                x = centred / math.sqrt((centred * centred).mean() + NORM_EPSILON) * scale + shift
            if index < last:
                x = activate(x)
        return np.concatenate([x, free]) if len(free) else x

    return output
