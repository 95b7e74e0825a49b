"""Solvers: algorithms that look at all rows, and prove what they say."""

from tightrope.methods import register
from tightrope.solvers.base import Look as Look
from tightrope.solvers.base import NotFiniteLook as NotFiniteLook
from tightrope.solvers.base import Solver as Solver
from tightrope.solvers.bundle import Bundle as Bundle
from tightrope.solvers.sqp import SQP as SQP

register(Bundle, SQP)
