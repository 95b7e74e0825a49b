"""SciPy's SLSQP on fair logistic regression as a user without tightrope would write it: in NumPy, derivatives by hand.

`tightrope.slsqp.slsqp` solves the same problem to the same digits; what benchmarks put on the clock, and the judge in
processes that should not start JAX, is this one.
"""

import numpy as np
from scipy.optimize import minimize


def loss(X: np.ndarray, y: np.ndarray, x: np.ndarray) -> float:
    return float(np.logaddexp(0, -y * (X @ x)).mean())


def gradient(X: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return -(y / (1 + np.exp(y * (X @ x)))) @ X / len(y)


def plain_slsqp(X: np.ndarray, y: np.ndarray, v: np.ndarray, c: float, ftol: float) -> np.ndarray:
    """The least mean loss with |<v, x>| <= c, from zero."""
    sides = np.stack([-v, v])
    return minimize(
        lambda x: loss(X, y, x),
        np.zeros(X.shape[1]),
        jac=lambda x: gradient(X, y, x),
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda x: c + sides @ x, "jac": lambda x: sides},
        options={"ftol": ftol, "maxiter": 2000},
    ).x
