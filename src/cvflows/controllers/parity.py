"""Inputs to try a controller on: those of episodes, near and far ones, and those that no sensor should give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np

from cvflows.controllers.plan import Plan, unnumber
from cvflows.controllers.status import Status, Used
from cvflows.errors import StoreError
from cvflows.files import Format, as_path, read_record
from cvflows.runs.acting import episode_seed
from cvflows.runs.train import Trainer

PARITY = Format("cvflows parity", 1)
MAX_AGE = 1.0
PLAYED, DRAWN = 96, 96
LARGEST = 1e30
"""Magnitude of the largest finite inputs that are tried."""
ORDINARY = 1e6
"""Beyond, an actor in single precision, which the agent's is, has no digits to compare."""


class Parity(NamedTuple):
    """Inputs, and what the controller and, where not None, the agent did there, call after call."""

    observations: np.ndarray
    ages: np.ndarray
    max_age: float
    actions: np.ndarray
    statuses: np.ndarray
    used: np.ndarray
    agent: list[np.ndarray | None]


def play_observations(trainer: Trainer, count: int = 4 * PLAYED) -> np.ndarray:
    """Observations (count, o) of episodes with the policy."""
    env, episode = trainer.make_env(), 0
    seen: list[np.ndarray] = []
    while len(seen) < count:
        observation, ended = np.asarray(env.reset(seed=episode_seed(0, episode))[0]), False
        while not ended and len(seen) < count:
            one = observation.astype(np.float32)
            seen.append(one)
            executed = trainer.guard.alone(one, trainer.learner.decide_alone(one))
            found, _, terminated, truncated, _ = env.step(executed.copy())
            observation, ended = np.asarray(found), terminated or truncated
        episode += 1
    env.close()
    return np.stack(seen)


def cases(plan: Plan, played: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Observations (n, o) and their ages (n,): ordinary ones, then one fault after another, each after a good one."""
    rng, size = np.random.default_rng(1), plan.network.inputs
    ordinary = played[rng.permutation(len(played))[:PLAYED]]
    near = next(perturbed(played, DRAWN, seed=2))
    seen, ages = [*ordinary, *near], [0.0] * (len(ordinary) + len(near))
    entries = rng.permutation(size)[:8].tolist()
    for index, wrong in [(entry, wrong) for entry in entries for wrong in (np.nan, np.inf, -np.inf, LARGEST)]:
        faulty = ordinary[0].copy()
        faulty[index] = wrong
        seen += [ordinary[0], faulty]
        ages += [0.0, 0.0]
    for age in (2 * MAX_AGE, -MAX_AGE, MAX_AGE):
        seen.append(ordinary[1])
        ages.append(age)
    for index in np.flatnonzero(np.isfinite(plan.low) | np.isfinite(plan.high)).tolist()[:8]:
        beyond = ordinary[0].copy()
        beyond[index] = plan.high[index] + 1 if np.isfinite(plan.high[index]) else plan.low[index] - 1
        seen.append(beyond)
        ages.append(0.0)
    seen += [np.zeros(size, np.float32), np.full(size, np.nan, np.float32)]
    return np.stack(seen).astype(np.float32), np.array([*ages, 0.0, 0.0])


def perturbed(played: np.ndarray, count: int, seed: int) -> Iterator[np.ndarray]:
    """Observations (count, o) around those of episodes: a little, ten times their spread, corners, huge, with zeros."""
    rng, spread = np.random.default_rng(seed), np.maximum(played.std(axis=0), 1e-3)
    while True:
        base = played[rng.integers(0, len(played), count)].astype(float)
        reach = 10.0 ** rng.uniform(-2, 1, (count, 1))
        found = base + reach * spread * rng.standard_normal(base.shape)
        kind = rng.integers(0, 8, count)[:, None]
        corner = base.mean(axis=0) + 3 * reach * spread * rng.choice([-1.0, 1.0], base.shape)
        found = np.where(kind == 1, corner, found)
        found = np.where(kind == 2, found * (rng.random(base.shape) < 0.5), found)
        yield found.astype(np.float32)


def adversarial(played: np.ndarray, count: int, seed: int) -> Iterator[np.ndarray]:
    """Observations (count, o) that are meant to break something: huge, tiny, NaN, infinite, single entries of them."""
    rng, ordinary = np.random.default_rng(seed), perturbed(played, count, seed + 1)
    wrong = np.array([np.nan, np.inf, -np.inf, LARGEST, -LARGEST, 1e-38, -0.0, 1e8])
    while True:
        found = next(ordinary)
        mixed = np.where(rng.random(found.shape) < 1 / found.shape[1], rng.choice(wrong, found.shape), found)
        sizes = 10.0 ** rng.uniform(-30, 30, found.shape) * rng.choice([-1.0, 1.0], found.shape)
        kind = rng.integers(0, 3, count)[:, None]
        yield np.where(kind == 0, mixed, np.where(kind == 1, sizes, found * 10.0 ** (5 * kind))).astype(np.float32)


def read_parity(folder: object, plan: Plan) -> Parity:
    """The cases of an artefact."""
    path = as_path("artefact", folder) / "parity.json"
    data = read_record(path, PARITY, ": is this an exported controller?")
    try:
        observations, agents = cast(list[list[object]], data["observations"]), cast(list[object], data["agent"])
        table = np.array([[unnumber(value) for value in row] for row in observations], np.float32)
        actions = np.array(data["actions"], np.float32)
        statuses, used = (np.array(data[name], np.int32) for name in ("statuses", "used"))
        agent = [None if row is None else np.array(row, np.float32) for row in agents]
        found = Parity(table, np.array(data["ages"], float), unnumber(data["max_age"]), actions, statuses, used, agent)
        count, d = len(table), len(plan.fixed)
        if table.shape != (count, plan.network.inputs) or actions.shape != (count, d) or len(agent) != count:
            raise ValueError("tables of other sizes")
        if not {*statuses.tolist()} <= {*Status} or not {*used.tolist()} <= {*Used}:
            raise ValueError("unknown statuses")
        return found
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(path, f"does not hold cases of this controller ({error})") from None
