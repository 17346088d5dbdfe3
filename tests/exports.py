"""Agents to export, small and untrained: what a controller promises does not depend on what was learned."""

from functools import lru_cache

import numpy as np

import cvflows as cv


def make_agent(task, method, kind="ray", scale=4.0, **settings):
    """An agent with random networks, whose last layers are large enough for actions to reach the boundary."""
    found = cv.task(task) if isinstance(task, str) else task
    small = {} if kind in (None, "ray", "orb") else {"width": 8, "bins": 4}
    map_ = None if kind is None else cv.make_map(kind, found.constraint, found.contexts, **small)
    agent = cv.Agent(method, found, map_=map_, num_envs=1, **{"hidden": (16, 16), **settings})
    learner = agent._trainer.learner
    shape, vector = learner.algorithm.actor, np.array(learner.state.actor)
    rng = np.random.default_rng(0)
    vector[2 * shape.inputs :] *= scale
    vector = vector + 0.01 * rng.standard_normal(vector.shape).astype(np.float32)
    vector[shape.inputs : 2 * shape.inputs] = 0.3  # as if inputs had been normalised
    vector[: shape.inputs] = 0.1
    learner.state = learner.state._replace(actor=vector)
    return agent


agent_of = lru_cache(make_agent)
