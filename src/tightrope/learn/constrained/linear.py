"""A linear score that is trained under the limits: every rate is replaced by a convex bound on it, a mean over rows.

A row is selected where its score z is positive, and log2(1 + e^z) is at least 1 there and positive elsewhere: its mean
bounds the share selected, log2(1 + e^-z) the share that is not. So each metric becomes E[u log2(1 + e^z) + v log2(1 + e^-z)]
with coefficients u, v of the rows' labels and groups, and limits become expectation constraints on the logistic loss, for
`minimize`.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tightrope._minimize import minimize
from tightrope.aside import aside
from tightrope.learn.constrained.asked import COST, METRICS, Asked, Constraint, Counts
from tightrope.learn.fair.task import FEATURES, as_dense
from tightrope.learn.fair.training import Scaling, repeated, widened
from tightrope.learn.loss import LOSS
from tightrope.learn.runs import kept
from tightrope.learn.sentences import in_a_sentence
from tightrope.problem import Problem
from tightrope.result import Result
from tightrope.sets import L2Ball
from tightrope.tree import Array, Tree

# Functions of a sample live at module level: a second problem of the same shapes then compiles nothing.


def _surrogates(x: Array, theta: Tree) -> Array:
    features, selected, not_selected = theta
    z = jnp.dot(features, x)
    return (selected * LOSS.traced(-z) + not_selected * LOSS.traced(z)) / LOSS.at_zero


def objective(x: Array, theta: Tree, params: Tree) -> Array:
    """The bound on what is minimised, for one row, and l2/2 |x|^2."""
    return _surrogates(x, theta)[0] + params["l2"] / 2 * jnp.dot(params["penalised"] * x, x)


def constraints(x: Array, theta: Tree, params: Tree) -> Array:
    """The bounds on what is limited, for one row."""
    return _surrogates(x, theta)[1:]


class Coefficients(NamedTuple):
    """A bound on a metric: what it costs each row to be selected and not to be, and the limit of the mean."""

    selected: np.ndarray
    not_selected: np.ndarray
    level: float


def coefficients(
    metric: str, at_most: bool, limit: float, positive: np.ndarray, weight: np.ndarray, costs: Any
) -> Coefficients:
    """The convex bound of "this metric keeps its limit", for rows with these labels and weights (zero outside a group).

    A share is hits / of <= limit: E[hit - limit of] <= 0. Both are linear in what is selected, so that the left side is
    E[a 1{selected} + b 1{not selected}] + constant; a, b >= 0 after moving a constant, and both indicators have bounds.
    """
    one, zero = np.ones(len(positive)), np.zeros(len(positive))
    P, N = positive.astype(float), 1.0 - positive

    def excess(selected: np.ndarray) -> np.ndarray:
        if metric == COST:
            return costs[0] * N * selected + costs[1] * P * (1 - selected) - limit
        counts = Counts(P * selected, N * selected, P, N)
        share = METRICS[metric].hits(counts) - limit * METRICS[metric].of(counts)
        return share if at_most else -share

    total = weight.sum()
    if metric == COST or metric not in METRICS or not METRICS[metric].within_a_class:
        unit = 1.0 / total
    else:
        unit = 1.0 / max(float(weight @ (P if METRICS[metric].rows == "positive rows" else N)), 1e-300)
    if_selected, if_not = excess(one), excess(zero)
    base = np.minimum(if_selected, if_not)
    scale = weight * unit * len(positive)
    return Coefficients(scale * (if_selected - base), scale * (if_not - base), float(-np.mean(scale * base)))


class SurrogateClassifier(ClassifierMixin, BaseEstimator):
    """A linear score trained under convex bounds on what it is asked to keep; `ConstrainedClassifier` uses it by default.

    Its own threshold, zero, keeps the limits on the training rows where the bounds allow it, which is far from the best: the
    score is meant to be cut elsewhere. Where no score keeps all bounds the limits are left out, and it is logistic
    regression.

    Args:
        asked: what is maximised and what is limited.
        limits: the constraints, those of every group.
        l2: coefficient of the penalty l2/2 |x|^2 on standardised coefficients; the intercept has none.
        radius: the radius of the ball that standardised coefficients lie in.
        random_state: a whole number.

    Attributes:
        coef_, intercept_: the score, for features as given.
        result_: the run of `minimize`.
        bounded_: whether the bounds could be kept.
    """

    classes_: np.ndarray
    n_features_in_: int
    coef_: np.ndarray
    intercept_: np.ndarray
    result_: Result
    bounded_: bool

    def __init__(
        self,
        asked: Asked,
        limits: tuple[Constraint, ...] = (),
        l2: float = 1e-3,
        radius: float = 10.0,
        random_state: int = 0,
    ):
        self.asked = asked
        self.limits = limits
        self.l2 = l2
        self.radius = radius
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> "SurrogateClassifier":
        """Train on rows whose label is True or False; `groups` has a mask for each (attribute, group) that is limited."""
        with aside(self) as new:
            with in_a_sentence("X", FEATURES):
                X = as_dense(validate_data(new, X, accept_sparse="csr", dtype=np.float64))
            masks = np.ones((len(X), len(new.limits)))
            for i, limit in enumerate(new.limits):
                masks[:, i] = 1.0 if limit.group is None else groups[limit.group]
            weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
            X, positive, masks, weight = _once(X, np.asarray(y, bool), masks, weight)
            new.classes_ = np.array([False, True])
            scaling = Scaling.fit(X, weight, intercept=True)
            features = scaling.apply(X)
            features[:, -1] = new.radius  # or the ball would hold the intercept down: rates of 1e-3 take one of -7
            bounds = [_objective(new.asked, positive, weight)]
            for c, mask in zip(new.limits, masks.T, strict=True):
                bounds.append(coefficients(c.metric, c.at_most, c.limit, positive, weight * mask, new.asked.costs))
            new.result_, new.bounded_ = new._train(features, bounds), True
            if len(bounds) > 1 and (new.result_.status.no_point or new.result_.violation > 1e-6):
                new.result_, new.bounded_ = new._train(features, bounds[:1]), False
            x = np.array(new.result_.x, float)
            x[X.shape[1]] *= new.radius
            coef, intercept = scaling.back(x)
            new.coef_, new.intercept_ = coef[None], np.array([intercept])
        return self

    def _train(self, features: np.ndarray, bounds: list[Coefficients]) -> Result:
        """The run, on data filled up with rows and columns that say nothing to one of few sizes."""
        (n, d), size = features.shape, len(repeated(len(features)))
        wide = np.pad(widened(features), ((0, size - n), (0, 0)))
        rows = np.zeros((2, size, len(bounds)))
        for i, bound in enumerate(bounds):
            rows[0, :n, i], rows[1, :n, i] = bound.selected * size / n, bound.not_selected * size / n
        penalised = np.arange(wide.shape[1]) < d - 1
        problem = Problem(
            objective=objective,
            constraints=constraints if len(bounds) > 1 else None,
            domain=L2Ball(self.radius, shape=wide.shape[1]),
            levels=np.array([bound.level for bound in bounds[1:]]) if len(bounds) > 1 else 0.0,
            params={"l2": float(self.l2), "penalised": penalised.astype(float)},
            names=tuple(limit.name for limit in self.limits) if len(bounds) > 1 else (),
        )
        result = minimize(problem, (wide, rows[0], rows[1]), seed=int(self.random_state), progress=False)
        return kept(result, f"{n:,} rows")

    def decision_function(self, X: Any) -> np.ndarray:
        """The score of each row."""
        check_is_fitted(self, "coef_")
        with in_a_sentence("X", FEATURES):
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_[0]).ravel() + self.intercept_[0]

    def predict(self, X: Any) -> np.ndarray:
        """Whether the score is positive."""
        return self.decision_function(X) > 0

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags


def _once(X: np.ndarray, positive: np.ndarray, masks: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
    """Every row once, with the weights of its copies summed: repeating a row and doubling its weight are one problem."""
    counted = weight > 0
    every = np.column_stack([X, positive, masks])[counted]
    rows, copy = np.unique(every, axis=0, return_inverse=True)
    d = X.shape[1]
    return rows[:, :d], rows[:, d] > 0, rows[:, d + 1 :], np.bincount(copy.ravel(), weights=weight[counted])


def _objective(asked: Asked, positive: np.ndarray, weight: np.ndarray) -> Coefficients:
    """What is minimised: the logistic loss of all rows, by what errors cost where a cost is asked about.

    The loss of the positive rows alone would be nearer to recall, and was no better under a limit; where a limit has to be
    left out, it would select everybody.
    """
    if asked.costs is not None:
        return coefficients(COST, True, 0.0, positive, weight, asked.costs)
    return coefficients("accuracy", False, 1.0, positive, weight, None)
