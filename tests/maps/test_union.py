"""The map of a union reaches every part."""

import jax
import numpy as np
import pytest

import cvflows as cv
from cases import GATES, NO_CONTEXT, each, map_case
from cvflows.errors import ArgumentError
from cvflows.maps.kinds import kind_of, make_map


def fixed_weights_kl(map_, contexts, count):
    """Σ_k w_k log(w_k/v_k), averaged over the contexts that `measure` draws: the parts are filled evenly, but their
    shares w_k do not follow their lengths v_k from context to context.
    """
    x = np.asarray(contexts.sample(jax.random.split(jax.random.key(1), 3)[0], count), float)[:, 0]
    lengths = np.stack([np.clip(0.5 - x, 0, 2), np.clip(0.4 + x, 0, 2)])
    weights = np.asarray(map_.weights)[:, None] * (lengths > 0)
    weights, volumes = weights / weights.sum(axis=0), lengths / lengths.sum(axis=0)
    present = lengths > 0
    ratio = np.where(present, weights, 1.0) / np.where(present, volumes, 1.0)
    return float((weights * np.log(ratio)).sum(axis=0).mean())


@each(["union of two discs", "union of functions"])
def test_the_map_reaches_every_part_and_is_exact(name):
    case = map_case(name)
    assert kind_of(case.map) == "union"
    assert case.map.certified
    quality = cv.measure(case.map, case.contexts, latents=20_000, context_count=32)
    assert quality.infeasible == 0
    assert quality.covered > 0.99
    assert quality.recall > 0.97
    gates = case.map.constraint is GATES
    expected = fixed_weights_kl(case.map, case.contexts, 32) if gates else 0.02  # a plain gauge on a disc
    np.testing.assert_allclose(quality.kl, expected, atol=0.01)


def test_overlapping_parts_have_no_union_map():
    overlapping = cv.Union(cv.Ball(2, 0.5), cv.Box(2, 0.0, 0.4))
    with pytest.raises(ArgumentError, match=r"disjoint parts .* parts \(0, 1\) overlap"):
        make_map("union", overlapping, NO_CONTEXT)
    assert not make_map("auto", overlapping, NO_CONTEXT, width=4).certified
