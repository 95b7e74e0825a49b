"""tightrope: stochastic optimisation with expectation constraints."""

from typing import TYPE_CHECKING, Any

from tightrope import tree
from tightrope.loop.checkpoint import CheckpointError
from tightrope.methods import (
    CSOA,
    FWCSOA,
    GOCO,
    METHODS,
    SVRFCSOA,
    SVRGCSOA,
    Cost,
    Info,
    Method,
    Refreshing,
    dual_step,
)
from tightrope.minimize import minimize
from tightrope.online import Online
from tightrope.problem import Problem, check_problem, equality, lift_cvar, penalised, stack, two_sided
from tightrope.result import Result, Status
from tightrope.sampling import Generator, Rows, Stream
from tightrope.sets import (
    SETS,
    Box,
    ConvexSet,
    GroupBall,
    L1Ball,
    L2Ball,
    LinfBall,
    NuclearBall,
    Polytope,
    Product,
    Simplex,
    Spectraplex,
)
from tightrope.sweep import sweep
from tightrope.tree import pytree, static

if TYPE_CHECKING:  # they load scikit-learn, which takes longer than everything else together
    from tightrope.estimators import FairLogisticRegression, StructuredMatrixCompletion

__version__ = "0.1.0"

__all__ = [
    "CSOA",
    "FWCSOA",
    "GOCO",
    "METHODS",
    "SETS",
    "SVRFCSOA",
    "SVRGCSOA",
    "Box",
    "CheckpointError",
    "ConvexSet",
    "Cost",
    "FairLogisticRegression",
    "Generator",
    "GroupBall",
    "Info",
    "L1Ball",
    "L2Ball",
    "LinfBall",
    "Method",
    "NuclearBall",
    "Online",
    "Polytope",
    "Problem",
    "Product",
    "Refreshing",
    "Result",
    "Rows",
    "Simplex",
    "Spectraplex",
    "Status",
    "Stream",
    "StructuredMatrixCompletion",
    "check_problem",
    "dual_step",
    "equality",
    "lift_cvar",
    "minimize",
    "penalised",
    "pytree",
    "stack",
    "static",
    "sweep",
    "tree",
    "two_sided",
]

_ESTIMATORS = ("FairLogisticRegression", "StructuredMatrixCompletion")


def __getattr__(name: str) -> Any:
    """The estimators, loaded when they are first used."""
    if name in _ESTIMATORS:
        from tightrope import estimators

        globals()[name] = getattr(estimators, name)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
