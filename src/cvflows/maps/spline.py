"""Monotone rational-quadratic splines on [-1,1] (Durkan et al., Neural Spline Flows, 2019), from flowjax."""

from __future__ import annotations

import equinox as eqx
import paramax
from flowjax.bijections import AbstractBijection, RationalQuadraticSpline
from flowjax.utils import get_ravelled_pytree_constructor
from jaxtyping import Array, Float


def parameter_count(bins: int) -> int:
    """Numbers that describe one spline: widths, heights, and slopes at all knots, the ends included."""
    return 3 * bins + 1


def make_spline(parameters: Float[Array, _], bins: int) -> AbstractBijection:
    """A spline from unconstrained numbers; zeros give the identity."""
    identity = RationalQuadraticSpline(knots=bins - 1, interval=1)
    construct, _ = get_ravelled_pytree_constructor(
        identity,
        filter_spec=eqx.is_inexact_array,
        is_leaf=lambda leaf: isinstance(leaf, paramax.NonTrainable),
    )
    return paramax.unwrap(construct(parameters))
