"""cvflows: action-constrained reinforcement learning, with agents whose actions stay allowed.

The public names load on first use, so that `import cvflows` and the command line start without JAX. Importing the
package makes its tasks known to Gymnasium: `gymnasium.make("cvflows/H-O-S-v0")`.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from cvflows.tasks.registration import register_tasks

__version__ = "0.2.0"

if TYPE_CHECKING:
    from cvflows.agent import Agent as Agent
    from cvflows.agents.methods import Method as Method
    from cvflows.agents.methods import add_method as add_method
    from cvflows.constraints.base import TOLERANCE as TOLERANCE
    from cvflows.constraints.base import AbstractConstraint as AbstractConstraint
    from cvflows.constraints.contexts import Normal as Normal
    from cvflows.constraints.contexts import Observed as Observed
    from cvflows.constraints.contexts import Product as Product
    from cvflows.constraints.contexts import Uniform as Uniform
    from cvflows.constraints.functions import Constraint as Constraint
    from cvflows.constraints.guard import Guard as Guard
    from cvflows.constraints.guard import Verdict as Verdict
    from cvflows.constraints.learned import LearnedConstraint as LearnedConstraint
    from cvflows.constraints.learned import Transitions as Transitions
    from cvflows.constraints.outcome import Maximum as Maximum
    from cvflows.constraints.outcome import Outcome as Outcome
    from cvflows.constraints.outcome import Projection as Projection
    from cvflows.constraints.ranges import Planes as Planes
    from cvflows.constraints.ranges import Ranges as Ranges
    from cvflows.constraints.sets.box import Box as Box
    from cvflows.constraints.sets.ellipsoid import Ellipsoid as Ellipsoid
    from cvflows.constraints.sets.half_spaces import HalfSpaces as HalfSpaces
    from cvflows.constraints.sets.joints import MomentArm as MomentArm
    from cvflows.constraints.sets.joints import Tip as Tip
    from cvflows.constraints.sets.registry import make_set as make_set
    from cvflows.constraints.sets.shares import Simplex as Simplex
    from cvflows.constraints.sets.shares import Sum as Sum
    from cvflows.constraints.sets.spheres import Ball as Ball
    from cvflows.constraints.sets.spheres import Shell as Shell
    from cvflows.constraints.sets.weighted import MaxPower as MaxPower
    from cvflows.constraints.sets.weighted import Orthoplex as Orthoplex
    from cvflows.constraints.sets.weighted import SinSquared as SinSquared
    from cvflows.constraints.statewise import learn as learn
    from cvflows.constraints.union import Union as Union
    from cvflows.controllers.python import Controller as Controller
    from cvflows.controllers.status import Status as Status
    from cvflows.envs.vector import FeasibleVectorActions as FeasibleVectorActions
    from cvflows.envs.vector import LatentVectorActions as LatentVectorActions
    from cvflows.envs.wrappers import FeasibleActions as FeasibleActions
    from cvflows.envs.wrappers import LatentActions as LatentActions
    from cvflows.maps.base import ActionMap as ActionMap
    from cvflows.maps.fit import FitConfig as FitConfig
    from cvflows.maps.fit import fit as fit
    from cvflows.maps.fit import fit_to_samples as fit_to_samples
    from cvflows.maps.kinds import MapKind as MapKind
    from cvflows.maps.kinds import add_map as add_map
    from cvflows.maps.kinds import make_map as make_map
    from cvflows.maps.quality import Quality as Quality
    from cvflows.maps.quality import measure as measure
    from cvflows.maps.store import load_map as load_map
    from cvflows.maps.store import save_map as save_map
    from cvflows.tasks.base import Task as Task
    from cvflows.tasks.catalogue import task as task

_HOMES = {
    "agent": ("Agent",),
    "agents.methods": ("Method", "add_method"),
    "constraints.base": ("TOLERANCE", "AbstractConstraint"),
    "constraints.contexts": ("Normal", "Observed", "Product", "Uniform"),
    "constraints.functions": ("Constraint",),
    "constraints.guard": ("Guard", "Verdict"),
    "constraints.learned": ("LearnedConstraint", "Transitions"),
    "constraints.statewise": ("learn",),
    "constraints.outcome": ("Maximum", "Outcome", "Projection"),
    "constraints.ranges": ("Planes", "Ranges"),
    "constraints.sets.box": ("Box",),
    "constraints.sets.ellipsoid": ("Ellipsoid",),
    "constraints.sets.half_spaces": ("HalfSpaces",),
    "constraints.sets.joints": ("MomentArm", "Tip"),
    "constraints.sets.registry": ("make_set",),
    "constraints.sets.shares": ("Simplex", "Sum"),
    "constraints.sets.spheres": ("Ball", "Shell"),
    "constraints.sets.weighted": ("MaxPower", "Orthoplex", "SinSquared"),
    "constraints.union": ("Union",),
    "controllers.python": ("Controller",),
    "controllers.status": ("Status",),
    "envs.vector": ("FeasibleVectorActions", "LatentVectorActions"),
    "envs.wrappers": ("FeasibleActions", "LatentActions"),
    "maps.base": ("ActionMap",),
    "maps.fit": ("FitConfig", "fit", "fit_to_samples"),
    "maps.kinds": ("MapKind", "add_map", "make_map"),
    "maps.quality": ("Quality", "measure"),
    "maps.store": ("load_map", "save_map"),
    "tasks.base": ("Task",),
    "tasks.catalogue": ("task",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'cvflows' has no attribute {name!r}")
    return getattr(importlib.import_module(f"cvflows.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


logging.getLogger("cvflows").addHandler(logging.NullHandler())  # silent until a user of the library says otherwise
register_tasks()
