"""From a trained policy to a plan: its actor cut out of one vector, its map and its constraint written as programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from cvflows.agents.learner import Learner
from cvflows.agents.networks import Perceptron
from cvflows.constraints.base import AbstractConstraint, all_rows
from cvflows.constraints.judge import judge_of
from cvflows.constraints.loops import LoopWriter
from cvflows.constraints.numbers import real_numbers
from cvflows.constraints.programs import Program
from cvflows.constraints.spec import describe
from cvflows.constraints.writing import UnwritableError, Writer, write_out
from cvflows.controllers.plan import TOLERANCE, Layer, Network, Plan
from cvflows.errors import ArgumentError, ExportError
from cvflows.files import Json
from cvflows.maps.inside import inner_point
from cvflows.runs.identity import surroundings
from cvflows.runs.train import Trainer
from cvflows.tasks.base import Task

LONGEST = 20_000
"""Steps of the longest program that is written: C compiles it in seconds."""
TRIED = 256
Limits = tuple[Sequence[float], Sequence[float]]
"""The least and the greatest value of every observation entry."""


class Options(NamedTuple):
    """What a caller may choose: `fallback` is `last`, `anchor`, or a fixed action; `limits` of the inputs."""

    fallback: str | Sequence[float] = "last"
    limits: Limits | None = None

    def check(self, task: Task) -> None:
        """An error where they do not suit a task, before anything is computed."""
        _fallback(self.fallback, task.action_dim)
        _limits(self.limits, task.observation_dim)


def make_plan(trainer: Trainer, options: Options, seen: np.ndarray) -> Plan:
    """The plan of a trained policy; `seen` (n, o) are observations it may meet, to choose a fixed action by."""
    task, learner = trainer.task, trainer.learner
    constraint, o, d = task.constraint, task.observation_dim, task.action_dim
    about, where = _about(trainer), f"{trainer.config.method} on {task.name}"
    context = _written(where, "reading of contexts", reader(task), obs=o)
    rows = _written(where, "constraint", lambda x, a: all_rows(constraint, x, a), x=constraint.context_dim, a=d)
    decoder = _written(
        where, _mapping(learner), policy_of(learner), loops=True, output=learner.algorithm.actor.outputs, obs=o
    )
    fallback, fixed = _fallback(options.fallback, d)
    anchor = _anchor(constraint)
    contexts = np.asarray(task.context(seen.astype(np.float64)))
    if fixed is None:
        fixed = _often_allowed(constraint, anchor, contexts)
    elif not (share := _share(constraint, contexts, np.array(fixed))):
        raise ArgumentError("fallback", "an action that is allowed somewhere", fixed)
    else:
        about["fixed_allowed"] = share
    low, high = _limits(options.limits, o)
    network = _network(learner.algorithm.actor, np.asarray(learner.state.actor), learner.told_at_evaluation)
    return Plan(about, network, context, decoder, rows, anchor, low, high, fallback, fixed)


def policy_of(learner: Learner) -> Callable[[Array, Array], Array]:
    """From an actor's output and an observation to the action, to be traced."""
    told = learner.told_at_evaluation

    def action(output: Array, obs: Array) -> Array:
        return learner.action(output, jnp.concatenate([obs, jnp.asarray(told, obs.dtype)]) if len(told) else obs)

    return action


def _written(where: str, part: str, function: Callable[..., Array], *, loops: bool = False, **sizes: int) -> Program:
    try:
        return write_out(function, LoopWriter(LONGEST) if loops else Writer(LONGEST), **sizes)
    except UnwritableError as error:
        raise ExportError(f"{where} cannot be exported: its {part} cannot be written as plain code: {error}") from None


def _mapping(learner: Learner) -> str:
    return type(learner.algorithm.decoder).__name__ if learner.map is None else f"{type(learner.map).__name__}"


def reader(task: Task) -> Callable[[Array], Array]:
    """How the guard reads a context: in double precision."""
    reads = task.reads
    if callable(reads):
        return lambda obs: jnp.asarray(reads(obs[None]))[0]
    indices = np.array([index for index, _ in reads], int)
    factors = np.array([factor for _, factor in reads], float)
    return lambda obs: obs[indices] * factors


def _anchor(constraint: AbstractConstraint) -> Program | None:
    """An inner point as a program, or the set's own centre; None where neither is a formula. Both are checked later."""
    for point in (lambda x: inner_point(constraint, x), constraint.centre):
        try:
            return write_out(point, Writer(), x=constraint.context_dim)
        except UnwritableError:
            continue
    return None


def _fallback(given: str | Sequence[float], size: int) -> tuple[str, tuple[float, ...] | None]:
    """The kind of fallback, and the fixed action if one was given, rounded to single precision."""
    if isinstance(given, str):
        if given not in ("last", "anchor"):
            raise ArgumentError("fallback", f"last, anchor, or an action of {size} entries", repr(given))
        return given, None
    action = real_numbers("fallback", given).astype(np.float32)
    if action.shape != (size,) or not (np.abs(action) <= 1).all():
        raise ArgumentError("fallback", f"last, anchor, or an action of {size} entries within [-1,1]", action)
    return "fixed", tuple(action.tolist())


def _often_allowed(constraint: AbstractConstraint, anchor: Program | None, contexts: np.ndarray) -> tuple[float, ...]:
    """The action, among 0, anchors and random ones, that is allowed at most of these contexts."""
    rng, d = np.random.default_rng(0), constraint.action_dim
    tried = [np.zeros((1, d)), rng.uniform(-1, 1, (TRIED, d))]
    if anchor is not None:
        inner = anchor.define("anchor", ieee=True)
        with np.errstate(all="ignore"):
            found = np.array([inner(list(context)) for context in contexts[:TRIED]], float).reshape(-1, d)
        tried.insert(1, found[np.isfinite(found).all(axis=1)])
    actions = np.clip(np.concatenate(tried), -1, 1).astype(np.float32)
    shares = [_share(constraint, contexts[:TRIED], action) for action in actions]
    return tuple(actions[int(np.argmax(shares))].tolist())


def _share(constraint: AbstractConstraint, contexts: np.ndarray, action: np.ndarray) -> float:
    """Of these contexts, those at which an action is allowed."""
    rows = judge_of(constraint).many(contexts, np.tile(action.astype(np.float32), (len(contexts), 1)))
    return float(np.mean(rows.max(axis=1) <= TOLERANCE))


def _limits(given: Limits | None, size: int) -> tuple[np.ndarray, np.ndarray]:
    if given is None:
        return np.full(size, -np.inf), np.full(size, np.inf)
    low, high = (np.asarray(end, float) for end in given)
    if low.shape != (size,) or high.shape != (size,) or not (low < high).all():
        raise ArgumentError("limits", f"{size} lower limits below {size} upper ones", (low.tolist(), high.tolist()))
    return low.astype(np.float32).astype(float), high.astype(np.float32).astype(float)


def _network(shape: Perceptron, parameters: np.ndarray, told: np.ndarray) -> Network:
    """The actor; inputs that are the same at every step become part of the first biases."""
    if not np.isfinite(parameters).all():
        raise ExportError("the actor holds NaN or infinity: nothing was learned that could be exported")
    cut = shape.parts(parameters)
    weight, bias = cut.weights[0].astype(float), cut.biases[0].astype(float)
    if len(told):
        start = shape.inputs - len(told)
        constant = np.clip((told - cut.mean[start:]) * cut.factor[start:], -shape.input_clip, shape.input_clip)
        weight, bias = weight[:start], bias + constant @ weight[start:]
    weights, biases = (weight, *cut.weights[1:]), (bias, *cut.biases[1:])
    norms = [*cut.norms, *[(None, None)] * (len(weights) - len(cut.norms))]
    layers = tuple(
        Layer(weight.astype(np.float32), bias.astype(np.float32), *norm)
        for weight, bias, norm in zip(weights, biases, norms, strict=True)
    )
    size = len(weight)
    return Network(cut.mean[:size], cut.factor[:size], shape.input_clip, shape.activation, layers, cut.free)


def _about(trainer: Trainer) -> dict[str, Json]:
    task, config, learner = trainer.task, trainer.config, trainer.learner
    known: dict[str, Json] = dict(surroundings())
    certified = learner.map is not None and learner.map.certified
    return {
        "task": task.name,
        "environment": task.environment,
        "method": config.method,
        "map": None if learner.map is None else type(learner.map).__name__,
        "certified": certified,
        "corrects": "by the map: the check is made all the same" if certified else "by the fallback alone",
        "constraint_words": f"{task.formula} — {task.constraint}",
        "constraint": describe(task.constraint),
        "steps": trainer.step,
        "seed": config.seed,
        "fingerprint": config.fingerprint,
        **known,
    }
