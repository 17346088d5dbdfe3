"""Task: which environment, which actions are allowed, and how their context is read from an observation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Unpack

import numpy as np

from cvflows.constraints.contexts import ContextDistribution, Observed, Uniform
from cvflows.constraints.ranges import Limits
from cvflows.errors import ArgumentError, within

if TYPE_CHECKING:  # listing the tasks must load neither JAX nor MuJoCo
    from cvflows.constraints.base import AbstractConstraint
    from cvflows.constraints.guard import OnEmpty
    from cvflows.envs.reading import Reader
    from cvflows.envs.worlds import Env
    from cvflows.tasks.statewise import LearnedTask, LearnOptions


@dataclass(frozen=True)
class SetSpec:
    """One set of a task as data: its name, its arguments, and which context entries it reads (None: all)."""

    name: str
    arguments: Mapping[str, object]
    entries: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Task:
    """An action-constrained control problem.

    **What it is called:** `name`, `environment`, `description`, `formula`; `in_paper` marks the paper's benchmark.

    **The environment:** `maker` is a Gymnasium id, "module:function", or a function, called with `settings` and a
    render mode; `family` picks the settings of algorithms.

    **What is allowed:** `allowed` is a constraint, or `SetSpec`s that make one; or `limits` are the states that must
    not be left: the constraint on actions is then learned from random transitions when it is first needed, as
    `learning` says: its `form` and further options of `learn`. Where both are given, both hold.
    `convex`, `star_shaped` and `share`, of the action box that is feasible under p_S, describe the set. `on_empty`:
    what is executed where no action is allowed (see `Guard`). `ending`: the probability with which a step past the
    limits ends an episode of training, where the environment does not end it: agents then learn to keep them.

    **Its context:** `reads` lists observation entries, each with the factor that recovers its physical value, or is a
    function; `distribution` is p_S, which stands for them when a map is fitted; None: states of a random policy.
    """

    name: str
    environment: str
    description: str
    formula: str
    action_dim: int
    observation_dim: int
    maker: str | Callable[..., Env]
    allowed: tuple[SetSpec, ...] | AbstractConstraint = ()
    limits: Limits | None = None
    reads: tuple[tuple[int, float], ...] | Reader = ()
    distribution: ContextDistribution | None = Uniform(0, -1.0, 1.0)  # noqa: RUF009 - frozen
    convex: bool = True
    star_shaped: bool = True
    share: float | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    family: str = "MuJoCo"
    learning: Mapping[str, object] = field(default_factory=dict)
    in_paper: bool = False
    on_empty: OnEmpty | None = None
    ending: float = 0.0

    def __post_init__(self) -> None:
        within("ending", self.ending, 0.0, 1.0)
        if self.ending and self.limits is None:
            raise ArgumentError("ending", "0: the task has no limits on states", self.ending)

    @cached_property
    def constraint(self) -> AbstractConstraint:
        """The set of allowed actions C(x)."""
        if not isinstance(self.allowed, tuple):
            return self.allowed
        if self.limits is not None:
            return self._learned.constraint
        return _build(self.allowed, len(self._entries))

    @cached_property
    def contexts(self) -> ContextDistribution:
        """p_S: the distribution of contexts."""
        if self.distribution is not None:
            return self.distribution
        if self.limits is not None:
            return self._learned.contexts
        return self._visited()

    @property
    def form(self) -> str:
        """The form in which a constraint on actions is learned from limits on states."""
        return str(self.learning.get("form", "stopping"))

    @property
    def metric(self) -> str:
        """What counts as a violation: forbidden `actions`, or `episodes` that left the safe states."""
        return "actions" if self.limits is None else "episodes"

    def context(self, observation: object) -> np.ndarray:
        """The context of one observation or of a batch: shape (..., context_dim)."""
        array = np.asarray(observation)
        if array.ndim == 0 or array.shape[-1] != self.observation_dim:
            raise ArgumentError("observation", f"shape (..., {self.observation_dim})", array.shape)
        if callable(self.reads):
            return np.asarray(self.reads(array))
        return array[..., self._indices] * self._factors.astype(array.dtype)

    def make_env(
        self, *, guard: bool = False, render_mode: str | None = None, ending: float = 0.0, **settings: object
    ) -> Env:
        """A new environment with actions in [-1,1]; with `guard`, one that executes only allowed actions.

        `ending`: the probability with which a step past the limits ends an episode.
        """
        from cvflows.tasks.making import make

        env = make(self.maker, {**self.settings, **settings}, render_mode)
        if self.limits is not None and self.family != "world":  # worlds end an episode that leaves their limits
            from cvflows.envs.watching import Watch

            env = Watch(env, self.limits, ending)
        if not guard:
            return env
        from cvflows.envs.wrappers import FeasibleActions

        return FeasibleActions(env, self.constraint, self.reads, self.on_empty)

    @classmethod
    def from_env(
        cls,
        env: object,
        constraint: AbstractConstraint | None = None,
        context: Sequence[int] | Reader | None = None,
        *,
        limits: Limits | None = None,
        contexts: ContextDistribution | None = None,
        on_empty: OnEmpty | None = None,
        name: str = "custom",
    ) -> Task:
        """A task from an environment of your own: see `tasks/making.py`, which describes the arguments."""
        from cvflows.tasks.making import from_env

        return from_env(env, constraint, context, limits=limits, contexts=contexts, on_empty=on_empty, name=name)

    def learn(self, form: str | None = None, **options: Unpack[LearnOptions]) -> LearnedTask:
        """This task, which limits states, with a learned constraint on actions; `options` are those of `learn_task`.

        What is not given is as `learning` says.
        """
        from cvflows.tasks.statewise import learn_task

        usual = {name: value for name, value in self.learning.items() if name != "form"}
        return learn_task(self, form or self.form, **{**usual, **options})  # type: ignore[arg-type]

    @cached_property
    def _learned(self) -> Task:
        return self.learn().task

    @property
    def _entries(self) -> tuple[tuple[int, float], ...]:
        """Observation entries and factors; none where a function reads the context."""
        return self.reads if isinstance(self.reads, tuple) else ()

    @cached_property
    def _indices(self) -> np.ndarray:
        return np.array([index for index, _ in self._entries], int)

    @cached_property
    def _factors(self) -> np.ndarray:
        return np.array([factor for _, factor in self._entries], float)

    def _visited(self) -> Observed:
        """Contexts of the states that random allowed actions lead to."""
        from cvflows.envs.transitions import collect

        return Observed(self.context(collect(self.make_env(guard=True), steps=2_000).before.astype(np.float32)))

    def with_constraint(self, constraint: AbstractConstraint, contexts: ContextDistribution | None) -> Task:
        """The same task with another constraint and its p_S (None: states of a random policy)."""
        return replace(self, allowed=constraint, distribution=contexts)

    @property
    def direct(self) -> AbstractConstraint | None:
        """The constraint on actions that is given beside limits on states; None where there is none."""
        if not isinstance(self.allowed, tuple) or not self.allowed:
            return None
        return _build(self.allowed, len(self._entries))


def _build(specs: tuple[SetSpec, ...], context_dim: int) -> AbstractConstraint:
    from cvflows.constraints.sets.registry import make_set

    parts = []
    for spec in specs:
        part = make_set(spec.name, **spec.arguments)
        parts.append(part if spec.entries is None else part.reads(spec.entries, of=context_dim))
    constraint = parts[0]
    for part in parts[1:]:
        constraint = constraint & part
    return constraint
