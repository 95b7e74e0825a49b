"""Fair logistic regression as a benchopt objective: the mean logistic loss under a bound on a covariance."""

import numpy as np
from benchopt import BaseObjective
from benchopt.stopping_criterion import SufficientProgressCriterion


class Objective(BaseObjective):
    """min mean log(1 + exp(-y <a, x>)) over |x| <= radius subject to |cov(s, <a, x>)| <= c.

    `value` is an exact penalty, so that methods that violate the constraint a little and methods that do not are compared by
    one number that is nowhere below F*: F(x) + w max(|cov| - c, 0). At x = 0 the loss is log 2 and the slack is c, so no
    optimal multiplier is above log(2)/c, which is w.
    """

    name = "Fair logistic regression"
    url = "https://arxiv.org/abs/2008.05758"
    min_benchopt_version = "1.7"
    parameters = {"c": [0.05], "radius": [10.0]}
    # first steps of primal-dual methods violate the constraint: a value that rises at first is no reason to stop
    stopping_criterion = SufficientProgressCriterion(eps=1e-10, patience=20)

    def set_data(self, X, y, s):
        """Rows X, labels y in {-1, +1}, sensitive attribute s."""
        self.X, self.y, self.s = X, y, s
        self.slope = (s - s.mean()) @ X / len(s)

    def get_objective(self):
        """What a solver is given."""
        return {"X": self.X, "y": self.y, "s": self.s, "c": self.c, "radius": self.radius}

    def evaluate_result(self, x):
        """The penalised value that is compared, and what it is made of."""
        loss = float(np.logaddexp(0.0, -self.y * (self.X @ x)).mean())
        violation = max(abs(float(self.slope @ x)) - self.c, 0.0)
        outside = max(float(np.linalg.norm(x)) - self.radius, 0.0)
        value = loss + np.log(2) / self.c * violation
        return {"value": value if outside <= 1e-6 * self.radius else np.inf, "loss": loss, "violation": violation}

    def get_one_result(self):
        """A feasible point, for benchopt's tests."""
        return {"x": np.zeros(self.X.shape[1])}
