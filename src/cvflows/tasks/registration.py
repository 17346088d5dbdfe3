"""Every task as a Gymnasium id: `gymnasium.make("cvflows/H-O-S-v0")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from cvflows.tasks.base import Task
from cvflows.tasks.catalogue import TASKS, task

if TYPE_CHECKING:  # `import cvflows` loads neither JAX nor MuJoCo
    from cvflows.constraints.base import AbstractConstraint


def gymnasium_id(name: str) -> str:
    """The id of a task: "H+O+S" becomes "cvflows/H-O-S-v0"."""
    return f"cvflows/{name.replace('+', '-')}-v0"


def register_tasks() -> None:
    """Make the ids known to Gymnasium; those already known stay as they are."""
    for name in TASKS:
        if gymnasium_id(name) not in gymnasium.registry:
            gymnasium.register(
                gymnasium_id(name), entry_point="cvflows.tasks.registration:make_task", kwargs={"name": name}
            )


def make_task(name: str, *, guard: bool = True, render_mode: str | None = None, **settings: Any) -> TaskEnv:
    """The environment of a task, with its `task` and its `constraint`; only allowed actions are executed.

    `guard=False` gives the environment without the guard.
    """
    return TaskEnv(task(name), guard=guard, render_mode=render_mode, **settings)


class TaskEnv(gymnasium.Wrapper[np.ndarray, np.ndarray, np.ndarray, np.ndarray], gymnasium.utils.RecordConstructorArgs):
    """An environment that carries its `task`."""

    def __init__(self, found: Task, *, guard: bool, render_mode: str | None, **settings: Any) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self)
        super().__init__(found.make_env(guard=guard, render_mode=render_mode, **settings))
        self.task = found

    @property
    def constraint(self) -> AbstractConstraint:
        """The allowed actions; learned on first use where the task limits states."""
        return self.task.constraint
