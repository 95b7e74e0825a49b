"""tightrope: what "auto" takes, variance reduction, and CSOA, by passes over the data and without a coefficient."""

import jax
import numpy as np
from benchopt import BaseSolver

import tightrope as tr
from tightrope.problems import fair_classification


class Solver(BaseSolver):
    """`minimize` with a budget of passes; its output is feasible on the data."""

    name = "tightrope"
    sampling_strategy = "iteration"
    requirements = ["pip::tightrope"]
    parameters = {"method": ["auto", "svrg-csoa", "csoa"]}
    test_config = {"solver": {"method": "auto"}}

    def set_objective(self, X, y, s, c, radius):
        """The library's own problem."""
        with jax.enable_x64(True):  # as SLSQP has it; the library's default is JAX's, float32
            self.problem, self.data = fair_classification(X, y, s, c, radius=radius)
        self.size = X.shape[1]

    def warm_up(self):
        """Compile, which is not counted."""
        self.run(2)

    def run(self, n_iter):
        """So many passes; none leaves zero."""
        self.x = np.zeros(self.size)
        if n_iter:
            options = {"passes": n_iter, "output": "feasible", "seed": 0, "progress": False}
            with jax.enable_x64(True):
                self.x = np.asarray(tr.minimize(self.problem, self.data, method=self.method, **options).x, float)

    def get_result(self):
        """The feasible output."""
        return {"x": self.x}
