"""Sets in several pieces are noticed."""

import jax.numpy as jnp
import pytest

import cvflows as cv
from cases import LEFT_DISC, NO_CONTEXT, RIGHT_DISC
from cvflows.errors import DisconnectedSetWarning
from cvflows.maps.pieces import count_pieces, warn_if_disconnected


def two_balls(x, a):
    return jnp.minimum(LEFT_DISC.rows(x, a)[0], RIGHT_DISC.rows(x, a)[0])


def test_pieces_are_counted_and_warned_of():
    split = cv.Constraint(two_balls, 2)
    assert count_pieces(split, NO_CONTEXT)[0] == 2
    with pytest.warns(DisconnectedSetWarning, match=r"seems to be in 2 pieces .*cv\.Union"):
        warn_if_disconnected(split, NO_CONTEXT)
    ring = cv.Constraint(lambda x, a: jnp.stack([a @ a / 0.81 - 1, 1 - a @ a / 0.7]), 2)
    assert count_pieces(ring, NO_CONTEXT)[0] == 1
