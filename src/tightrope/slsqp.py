"""SciPy's SLSQP on all the data, a reference and not a method: see `tightrope.lab.slsqp`."""

from tightrope.lab.slsqp import BatchResult as BatchResult
from tightrope.lab.slsqp import slsqp as slsqp
