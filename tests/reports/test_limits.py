"""How much of its limits an agent uses."""

import jax.numpy as jnp
import pytest

import cvflows as cv
from cvflows.reports.limits import play_course
from cvflows.runs.acting import episode_seed
from cvflows.runs.train import Trainer
from small import QUICK


def test_a_course_tells_how_much_of_the_limit_every_action_used(ball, ball_map):
    agent = cv.Agent("SAC+CVFlow", ball, map_=cv.load_map(ball_map, ball.constraint), **QUICK)
    trainer = Trainer(ball, agent.config.plan, cv.load_map(ball_map, ball.constraint))
    course = play_course(trainer)
    assert len(course.used) == len(course.actions) == 76
    assert (course.used <= 1 + 1e-6).all()
    seen, _ = ball.make_env().reset(seed=episode_seed(trainer.config.seed, 2, 0))
    rows = ball.constraint.rows(jnp.asarray(ball.context(seen)), jnp.asarray(course.actions[0]))
    assert course.used[0] == pytest.approx(1 + float(rows.max()), abs=1e-5)
