"""tightrope: stochastic optimisation with expectation constraints."""

from tightrope.estimators import FairLogisticRegression, StructuredMatrixCompletion
from tightrope.loop.checkpoint import CheckpointError
from tightrope.methods import CSOA, FWCSOA, GOCO, METHODS, SVRFCSOA, SVRGCSOA, Cost, Info, Method, dual_step
from tightrope.minimize import minimize
from tightrope.online import Online
from tightrope.problem.check import check_problem
from tightrope.problem.constraints import equality, stack, two_sided
from tightrope.problem.cvar import lift_cvar
from tightrope.problem.problem import Problem
from tightrope.problem.transform import penalised
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
    "two_sided",
]
