"""SciPy's SLSQP on all the data: a reference in batches."""

import numpy as np
from benchopt import BaseSolver
from scipy.optimize import minimize
from scipy.special import expit


class Solver(BaseSolver):
    """Sequential quadratic programming with exact gradients; an iteration looks at all rows."""

    name = "SLSQP"
    sampling_strategy = "iteration"
    requirements = ["scipy"]

    def set_objective(self, X, y, s, c, radius):
        """The problem in SciPy's words."""
        self.X, self.y, self.radius = X, y, radius
        slope = (s - s.mean()) @ X / len(s)
        self.constraints = [
            {"type": "ineq", "fun": lambda x: c - slope @ x, "jac": lambda x: -slope},
            {"type": "ineq", "fun": lambda x: c + slope @ x, "jac": lambda x: slope},
            {"type": "ineq", "fun": lambda x: radius**2 - x @ x, "jac": lambda x: -2 * x},
        ]

    def run(self, n_iter):
        """So many iterations; none leaves zero."""
        self.x = np.zeros(self.X.shape[1])
        if n_iter:
            options = {"maxiter": n_iter, "ftol": 1e-14}
            found = minimize(
                self._value, self.x, jac=True, constraints=self.constraints, method="SLSQP", options=options
            )
            self.x = found.x * min(1.0, self.radius / max(float(np.linalg.norm(found.x)), 1e-12))

    def _value(self, x):
        margin = self.y * (self.X @ x)
        return np.logaddexp(0.0, -margin).mean(), -(self.y * expit(-margin)) @ self.X / len(self.y)

    def get_result(self):
        """The last point."""
        return {"x": self.x}
