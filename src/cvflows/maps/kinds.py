"""Every kind of map that comes with the package, one line each; whoever imports from here knows them all."""

from __future__ import annotations

from cvflows.maps import charted, coupling, orb, ray, union
from cvflows.maps.registry import KINDS as KINDS
from cvflows.maps.registry import MapKind as MapKind
from cvflows.maps.registry import add_map as add_map
from cvflows.maps.registry import describe_map as describe_map
from cvflows.maps.registry import kind_for as kind_for
from cvflows.maps.registry import kind_of as kind_of
from cvflows.maps.registry import make_map as make_map
from cvflows.maps.registry import parse_kind as parse_kind
from cvflows.maps.registry import rebuild_map as rebuild_map

add_map(charted.BOX_SPLINE)
add_map(charted.COUPLING)
add_map(coupling.REAL_NVP)
add_map(charted.SLICE)
add_map(charted.SHARE)
add_map(charted.GAUGE)
add_map(charted.SHELL)
add_map(orb.ORB)
add_map(ray.RAY)
add_map(union.UNION)
