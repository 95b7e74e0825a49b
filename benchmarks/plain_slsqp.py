"""SciPy's SLSQP on fair logistic regression as a user without tightrope would write it: in NumPy, derivatives by hand.

`tightrope.slsqp.slsqp` solves the same problem to the same digits; what benchmarks put on the clock, and the judge in
processes that should not start JAX, is this one.
"""

import numpy as np
from scipy.optimize import minimize

from studies.fair_logistic import C, Instance


def plain_slsqp(on: Instance, ftol: float) -> np.ndarray:
    """The least mean loss with a covariance between -C and C, from zero."""
    sides = np.stack([-on.v, on.v])
    limits = {"type": "ineq", "fun": lambda x: C + sides @ x, "jac": lambda x: sides}
    options = {"ftol": ftol, "maxiter": 2000}
    start = np.zeros(len(on.v))
    return minimize(on.value, start, jac=on.gradient, method="SLSQP", constraints=limits, options=options).x
