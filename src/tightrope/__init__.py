"""tightrope: stochastic optimisation with expectation constraints."""

from tightrope._tree import pytree, static
from tightrope.check import check_problem
from tightrope.constraints import equality, stack, two_sided
from tightrope.methods import CSOA, FWCSOA, METHODS, Cost, Info, Method, dual_step
from tightrope.minimize import minimize
from tightrope.problem import Problem
from tightrope.result import Result, Status
from tightrope.sampling import Generator, Rows, Stream
from tightrope.sets import *  # noqa: F403

__version__ = "0.1.0"
