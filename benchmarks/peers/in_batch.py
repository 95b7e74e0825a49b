"""The peers that look at all rows at once: SLSQP, scikit-lego, fairlearn."""

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.peers.contest import C, Contender, Run
from benchmarks.plain_slsqp import plain_slsqp


class SLSQP(Contender):
    """SciPy's SLSQP with hand-written gradients."""

    def grid(self) -> list[dict[str, Any]]:
        return [{"ftol": t} for t in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)]

    def run(self, setting: dict[str, Any], seed: int, limit: float) -> Run:
        began = time.perf_counter()
        x = plain_slsqp(self.adult.X, self.adult.y, self.adult.v, C, **setting)
        return Run(time.perf_counter() - began, self.adult.good(x))


class ScikitLego(Contender):
    """scikit-lego's DemographicParityClassifier: the same problem, handed to a conic solver by CVXPY.

    An interior point may end a little outside, so a threshold a little smaller is tried too.
    """

    cheapest_first = True
    seeds = range(1)

    def grid(self) -> list[dict[str, Any]]:
        return [{"covariance_threshold": c} for c in (C, C - 1e-6, C - 1e-4)]

    def run(self, setting: dict[str, Any], seed: int, limit: float) -> Run:
        from sklego.linear_model import DemographicParityClassifier  # pyright: ignore[reportMissingImports]

        # The classifier adds the constant column itself; the sensitive one it takes from the features and drops.
        columns = np.column_stack([self.adult.X[:, :-1], self.adult.group])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it recommends another library
            model: Any = DemographicParityClassifier(
                sensitive_cols=[columns.shape[1] - 1], train_sensitive_cols=False, penalty=None, **setting
            )
            began = time.perf_counter()
            model.fit(columns, self.adult.y)
        seconds = time.perf_counter() - began
        fitted = model.estimators_[0]
        x = np.append(fitted.coef_.ravel(), fitted.intercept_)
        return Run(seconds, self.adult.good(x), {"gap": self.adult.gap(x), "covariance": self.adult.covariance(x)})


class Fairlearn(Contender):
    """fairlearn's ExponentiatedGradient over logistic regressions: another problem.

    It bounds the difference of the groups' rates for a randomised classifier. It counts as having reached the target when
    its p%-rule is at least that of our optimum.
    """

    seeds = range(1)

    def grid(self) -> list[dict[str, Any]]:
        return [{"difference_bound": b} for b in (0.01, 0.02, 0.03, 0.05, 0.1)]

    def run(self, setting: dict[str, Any], seed: int, limit: float) -> Run:
        from fairlearn.reductions import (  # pyright: ignore[reportMissingImports]
            DemographicParity,
            ExponentiatedGradient,
        )
        from sklearn.linear_model import LogisticRegression  # pyright: ignore[reportMissingImports]

        model: Any = ExponentiatedGradient(LogisticRegression(C=np.inf), DemographicParity(**setting))
        labels = (self.adult.y > 0).astype(int)
        began = time.perf_counter()
        model.fit(self.adult.X[:, :-1], labels, sensitive_features=self.adult.group)
        seconds = time.perf_counter() - began
        # The mean of its members' scores is a linear score again, and has a covariance.
        members = zip(model.weights_, model.predictors_, strict=True)
        x = sum(weight * np.append(m.coef_.ravel(), m.intercept_) for weight, m in members)
        positive = model._pmf_predict(self.adult.rows[:, :-1])[:, 1]
        rule = self.adult.rule(positive)
        note = {
            "p_rule": rule,
            "accuracy": self.adult.accuracy(positive),
            "covariance": self.adult.covariance(np.asarray(x)),
            "gap": self.adult.gap(np.asarray(x)),
        }
        return Run(seconds, rule >= self.adult.p_rule, note)
