"""tightrope: what "auto" takes, variance reduction, and CSOA, by passes over the data and without a coefficient."""

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
        self.problem, self.data = fair_classification(X, y, s, c, radius=radius)
        self.size = X.shape[1]

    def warm_up(self):
        """Compile, which is not counted."""
        self.run(2)

    def run(self, n_iter):
        """So many passes; none leaves zero."""
        self.x = np.zeros(self.size)
        if n_iter:
            run = tr.minimize(
                self.problem, self.data, method=self.method, passes=n_iter, output="feasible", seed=0, progress=False
            )
            self.x = np.asarray(run.x, float)

    def get_result(self):
        """The feasible output."""
        return {"x": self.x}
