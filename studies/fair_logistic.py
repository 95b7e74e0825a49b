"""Fair logistic regression on given rows: its problem for tightrope, a judge in NumPy, and its optimum."""

from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

import tightrope as tr
from tightrope.slsqp import BatchResult, slsqp

C, RADIUS = 0.05, 10.0
"""The bound on the covariance, and that on |x|, several times the norm of the optimum on Adult."""


def logistic(x, theta, covariance):
    """The logistic loss of one row."""
    return tr.logistic_loss(theta[1] * jnp.dot(theta[0], x))


def both_sides(x, covariance):
    """The covariance of score and sensitive attribute, which is linear in x and known, and minus it."""
    q = jnp.dot(covariance, x)
    return jnp.stack([q, -q])


class Instance:
    """Features X, labels y in {-1, +1}, and a sensitive attribute, kept centred as s; the covariance is <v, x>."""

    def __init__(self, X: np.ndarray, y: np.ndarray, s: np.ndarray) -> None:
        self.X, self.y, self.s = X, y, s - s.mean()
        self.v = self.s @ X / len(X)

    def value(self, x: np.ndarray) -> float:
        """The mean logistic loss."""
        return float(np.logaddexp(0, -self.y * (self.X @ x)).mean())

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """The gradient of the mean logistic loss."""
        return -(self.y / (1 + np.exp(self.y * (self.X @ x)))) @ self.X / len(self.y)

    def covariance(self, x: np.ndarray) -> float:
        """The covariance of score and sensitive attribute, row by row in float64."""
        return float(np.mean(self.s * (self.X @ x)))

    def problem(self, precision: str = "float64", c: float = C) -> tuple[tr.Problem, tr.Rows]:
        """The same for tightrope: the constraint known exactly, and the rows."""
        rows = tr.Rows(tuple(a.astype(precision) for a in (self.X, self.y, self.s)))
        domain, v = tr.L2Ball(RADIUS, shape=self.X.shape[1]), jnp.asarray(self.v, precision)
        return tr.Problem(logistic, None, domain, levels=c, params=v, exact_constraints=both_sides), rows

    def solve(self, c: float = C, tol: float = 1e-15) -> BatchResult:
        """The solution by SLSQP, run to the end."""
        with jax.enable_x64(True):
            return slsqp(*self.problem(c=c), tol=tol, max_iterations=2000)

    @cached_property
    def optimum(self) -> float:
        """The least mean loss that the bound allows."""
        return self.solve().objective
