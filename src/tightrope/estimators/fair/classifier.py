"""Logistic regression that meets a fairness constraint, as a scikit-learn classifier."""

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from tightrope.estimators.fair.frontier import Choice, choose, choose_by_batch, compute_frontier
from tightrope.estimators.fair.streaming import FairStream
from tightrope.estimators.fair.training import Task, build, train
from tightrope.fairness.sensitive import Sensitive, read_sensitive
from tightrope.methods import METHODS, Method
from tightrope.problems.fair import NOTIONS, carried_by_few
from tightrope.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEARCHES = ("cross-validation", "batch")


class FairLogisticRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression with a bound on the covariance of its score and sensitive attributes.

    Minimise the mean logistic loss subject to |cov(s, score)| <= c for every sensitive attribute (Zafar et al., 2017). Say
    either what you want, `p_rule=0.8`, and c is found; or c itself, `covariance=0.05`; or neither, and it is plain logistic
    regression. `fit` solves the problem on the data at hand to a certified gap and returns a classifier that satisfies
    the constraint on its training data, exactly; `partial_fit` learns from a stream with CSOA.

    Features are standardised inside and `coef_` is in their own units. The sensitive attribute is used in training only
    and is not a feature, unless you put it among them.

    Args:
        p_rule: the p%-rule to keep, a share such as 0.8: no group's rate of positive decisions below that share of
            another's. The largest c is chosen of which out-of-fold predictions show this with `confidence`. With
            "equal_opportunity" it is the rates among truly positive rows that are compared.
        covariance: c: a number for all attributes, or a dict by name.
        notion: "demographic_parity", over all rows, or "equal_opportunity", over the rows with a positive label.
        sensitive: names of columns of X (a DataFrame) that are sensitive, instead of `fit(sensitive_features=)`. They are
            taken out of the features.
        sensitive_as_features: leave these columns among the features all the same.
        l2: coefficient of the penalty l2/2 |x|^2 on standardised coefficients; the intercept has none.
        class_weight: as in scikit-learn: None, "balanced" or a dict.
        fit_intercept: whether the score has a constant.
        radius: of the ball that standardised coefficients lie in. It keeps separable data from running off to infinity,
            and a handful of rows from cancelling the covariance of all others.
        method: "auto", the best for data at hand; "csoa", the paper's, one sample a step; or a method object.
        passes: at most so many passes over the data; by default 10, and some 300 for "auto", which stops by `tol`.
        tol: for "auto", the duality gap at which to stop, as a share of the objective.
        search: how c is found for `p_rule`: "cross-validation", or "batch", as in the paper: on 10,000 random rows, judged
            by these same rows.
        folds: of the cross-validation.
        confidence: of the bound on the p%-rule, one-sided and true for the whole path at once.
        scaling: for `partial_fit`, (means, deviations) of the features; by default those of the first batch.
        random_state: a whole number; the same one gives the same classifier.

    Attributes:
        coef_, intercept_: of the score, shapes (1, n_features) and (1,), for features as given.
        classes_: the two labels; the second is the positive one.
        threshold_: c, or a dict of them by attribute; None without a constraint.
        dual_: the multipliers, in the order of `result_.constraints`: what a unit of c is worth.
        result_: the run of `fit`, a `Result`; print it. A classifier read from a file has its report_, as text.
        frontier_: for `p_rule`, the path that c was chosen from.
        attributes_: the sensitive attributes, as they were read.
        n_features_in_, feature_names_in_: of the features, without sensitive columns.

    Example:
        >>> import tightrope as tr
        >>> from tightrope.datasets import rotated_gaussians
        >>> from tightrope.fairness.metrics import p_rule
        >>> X, y, s, _ = rotated_gaussians(n=2000, phi=0.8)
        >>> plain = tr.FairLogisticRegression().fit(X, y)
        >>> fair = tr.FairLogisticRegression(covariance=0.1).fit(X, y, sensitive_features=s)
        >>> bool(p_rule(fair.predict(X), s) > p_rule(plain.predict(X), s) + 0.2)
        True

    References:
        M. B. Zafar, I. Valera, M. Gomez Rodriguez, K. P. Gummadi: Fairness Constraints: Mechanisms for Fair Classification,
        AISTATS 2017.
    """

    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        p_rule: float | None = None,
        covariance: Any = None,
        *,
        notion: str = "demographic_parity",
        sensitive: Any = None,
        sensitive_as_features: bool = False,
        l2: float = 0.0,
        class_weight: Any = None,
        fit_intercept: bool = True,
        radius: float = 10.0,
        method: str | Method = "auto",
        passes: float | None = None,
        tol: float = 1e-12,
        search: str = "cross-validation",
        folds: int = 5,
        confidence: float = 0.95,
        scaling: Any = None,
        random_state: int = 0,
    ):
        self.p_rule = p_rule
        self.covariance = covariance
        self.notion = notion
        self.sensitive = sensitive
        self.sensitive_as_features = sensitive_as_features
        self.l2 = l2
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.radius = radius
        self.method = method
        self.passes = passes
        self.tol = tol
        self.search = search
        self.folds = folds
        self.confidence = confidence
        self.scaling = scaling
        self.random_state = random_state

    # ---- learning --------------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any, sensitive_features: Any = None, sample_weight: Any = None
    ) -> "FairLogisticRegression":
        """Learn from all the data at once.

        Args:
            X: features: an array, or a DataFrame of pandas or polars.
            y: labels of two kinds.
            sensitive_features: a column or several: binary, categorical or continuous. Required with a constraint.
            sample_weight: weights of the rows.
        """
        self._check_parameters()
        task = self._task(X, y, sensitive_features, sample_weight)
        choice = self._choice(task)
        threshold = self.covariance if choice is None else choice.threshold
        if task.sensitive is not None:
            self._warn_of_few(task, threshold)
        seed = int(self.random_state)
        trained = train(task, threshold, method=self.method, passes=self.passes, tol=self.tol, seed=seed)
        self._warn_of_gap(trained.result)
        self.coef_, self.intercept_ = trained.coef[None], np.array([trained.intercept])
        self.result_, self.dual_ = trained.result, np.asarray(trained.result.dual)
        self.threshold_ = dict(threshold) if isinstance(threshold, Mapping) else threshold
        self.attributes_ = () if task.sensitive is None else task.sensitive.attributes
        self.frontier_ = None if choice is None else choice.frontier
        self._stream = None
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sensitive_features: Any = None, sample_weight: Any = None
    ) -> "FairLogisticRegression":
        """Learn from the next batch of a stream, with CSOA: a step for every eight rows, in constant memory.

        The mean of the sensitive attribute is not known in a stream; of two independent rows, (s - s')(z - z')/2 is the
        covariance in the mean all the same, and a step takes all pairs of its rows. Features are standardised by
        `scaling`, or by the first batch for good.

        Args:
            X, y, sensitive_features, sample_weight: as for `fit`.
            classes: the two labels; required with the first batch unless that has both.
        """
        self._check_parameters()
        if self.p_rule is not None:
            raise ValueError(
                f"partial_fit cannot keep p_rule={self.p_rule:g}: to find the threshold it would have to see all the data. "
                "Use covariance=..., e.g. the threshold_ that fit finds on a part of the data."
            )
        first = getattr(self, "_stream", None) is None
        task = self._task(X, y, sensitive_features, sample_weight, classes, first=first)
        if first:
            self._stream = FairStream.start(task, self.covariance, self.scaling, self.method)
        assert self._stream is not None
        self._stream.update(task)
        coef, intercept, self.dual_ = self._stream.learnt()
        self.coef_, self.intercept_ = coef[None], np.array([intercept])
        self.threshold_, self.frontier_ = self.covariance, None
        self.attributes_ = () if task.sensitive is None else task.sensitive.attributes
        return self

    # ---- deciding ----------------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> np.ndarray:
        """The score: positive for the second class."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, self._features(X), reset=False, dtype=np.float64)
        return X @ self.coef_[0] + self.intercept_[0]

    def predict(self, X: Any) -> np.ndarray:
        """The labels."""
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of both classes."""
        positive = expit(self.decision_function(X))
        return np.column_stack([1 - positive, positive])

    # ---- fairness and accuracy ---------------------------------------------------------------------------------------

    def frontier(self, X: Any = None, y: Any = None, sensitive_features: Any = None, sample_weight: Any = None):
        """Accuracy against the p%-rule along a path of thresholds, with intervals, from out-of-fold predictions.

        After `fit` with `p_rule` the path is there; otherwise give the training data. Columns: threshold, accuracy and
        p_rule with two-sided 95 % intervals (_low, _high), p_rule_bound (one-sided, for all thresholds at once) and
        selected (the share decided positive).
        """
        if X is None:
            known = getattr(self, "frontier_", None)
            if known is None:
                raise ValueError(
                    "frontier() is known after fit with p_rule; otherwise give it X, y and sensitive_features."
                )
            return known.copy()
        twin = type(self)(**(self.get_params(deep=False) | {"p_rule": 0.8, "covariance": None}))
        task = twin._task(X, y, sensitive_features, sample_weight)
        twin._need_groups(task)
        return compute_frontier(task, folds=self.folds, confidence=self.confidence, seed=int(self.random_state))

    def plot_frontier(self, path: str | None = None, frontier: pd.DataFrame | None = None) -> "Figure":
        """Draw the frontier, with the threshold chosen; saved to `path` where one is given."""
        from tightrope.plotting import plot_frontier

        table = self.frontier() if frontier is None else frontier
        chosen = getattr(self, "threshold_", None)
        return plot_frontier(table, self.p_rule, chosen if isinstance(chosen, float) else None, path)

    # ---- on disk -----------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the classifier to one file: arrays in safetensors, the rest as JSON; no pickle."""
        from tightrope.estimators.fair.model_file import save_classifier

        check_is_fitted(self, "coef_")
        save_classifier(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "FairLogisticRegression":
        """Read a classifier that `save` wrote; a file that is damaged, changed or something else is refused."""
        from tightrope.estimators.fair.model_file import load_classifier

        return load_classifier(cls, Path(path))

    # ---- what was given, checked -------------------------------------------------------------------------------------

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @property
    def _constrained(self) -> bool:
        return self.p_rule is not None or self.covariance is not None

    def _check_parameters(self) -> None:
        if self.p_rule is not None and self.covariance is not None:
            raise ValueError(
                "p_rule and covariance were both given; expected one of them: either finds what the other says."
            )
        if self.p_rule is not None and not (_is_number(self.p_rule) and 0 < self.p_rule < 1):
            raise ValueError(
                f"p_rule is {self.p_rule!r}; expected a share between 0 and 1, such as 0.8 for the 80 % rule."
            )
        if self.notion not in NOTIONS:
            raise ValueError(f"notion is {self.notion!r}; expected {' or '.join(map(repr, NOTIONS))}.")
        if self.search not in SEARCHES:
            raise ValueError(f"search is {self.search!r}; expected {' or '.join(map(repr, SEARCHES))}.")
        if not isinstance(self.method, Method) and self.method not in ("auto", *METHODS):
            raise ValueError(f"method is {self.method!r}; expected auto, {', '.join(METHODS)} or a method object.")
        for name in ("radius", "tol") if self.passes is None else ("radius", "tol", "passes"):
            if not _is_number(getattr(self, name)) or getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected a positive number.")
        if not _is_number(self.l2) or self.l2 < 0:
            raise ValueError(f"l2 is {self.l2!r}; expected a number of at least 0.")
        if not _is_number(self.confidence) or not 0 < self.confidence < 1:
            raise ValueError(f"confidence is {self.confidence!r}; expected a number between 0 and 1.")
        if self.sensitive is not None and not isinstance(self.sensitive, str | Iterable):
            raise TypeError(f"sensitive is {self.sensitive!r}; expected the name of a column, or a list of names.")
        if not isinstance(self.folds, int) or self.folds < 2:
            raise ValueError(f"folds is {self.folds!r}; expected a whole number of at least 2.")
        if not isinstance(self.random_state, int | np.integer) or self.random_state < 0:
            raise ValueError(f"random_state is {self.random_state!r}; expected a whole number of at least 0.")

    def _named(self) -> list[Any]:
        """The columns of X that are sensitive."""
        if self.sensitive is None:
            return []
        return [self.sensitive] if isinstance(self.sensitive, str) else list(self.sensitive)

    def _features(self, X: Any) -> Any:
        """X without sensitive columns, where it has any; they need not be there when predicting."""
        named = [] if self.sensitive_as_features else self._named()
        there = [name for name in named if name in getattr(X, "columns", ())]
        return X[[name for name in X.columns if name not in there]] if there else X

    def _task(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any, classes: Any = None, first: bool = True
    ) -> Task:
        """Everything checked, as arrays."""
        sensitive = self._sensitive(X, sensitive_features, None if first else getattr(self, "attributes_", None))
        checked: Any = validate_data(self, self._features(X), y, reset=first, dtype=np.float64)
        features, y = checked
        weight = _check_sample_weight(sample_weight, features, dtype=np.float64, ensure_non_negative=True)
        positive = self._positive(y, classes, first)
        if self.class_weight is not None:
            weight = weight * compute_sample_weight(self.class_weight, y)
        if sensitive is not None and len(sensitive) != len(features):
            raise ValueError(
                f"sensitive_features has {len(sensitive):,} rows and X has {len(features):,}; expected as many."
            )
        if first and classes is None and len(np.unique(positive[weight > 0])) < 2:
            raise ValueError("y has only one class among the rows with weight; expected two.")
        y = np.where(positive, 1.0, -1.0)
        return Task(features, y, sensitive, weight, self.notion, float(self.l2), float(self.radius), self.fit_intercept)

    def _positive(self, y: Any, classes: Any, first: bool) -> np.ndarray:
        """Which rows have the second label; the labels are learnt with the first data."""
        check_classification_targets(y)
        if first:
            kind = type_of_target(y, input_name="y", raise_unknown=True)
            known = np.unique(y) if classes is None else np.unique(classes)
            if len(known) > 2:
                raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
            if len(known) < 2:
                raise ValueError(f"y has only one class, {known[0]!r}; expected two.")
            self.classes_ = known
        strange = set(np.unique(y).tolist()) - set(self.classes_.tolist())
        if strange:
            raise ValueError(f"y has the label {min(strange)!r}; expected one of {self.classes_.tolist()}.")
        return np.asarray(y) == self.classes_[1]

    def _sensitive(self, X: Any, given: Any, known: Any) -> Sensitive | None:
        named = self._named()
        if not self._constrained:
            return None
        if given is None and not named:
            what = f"p_rule={self.p_rule!r}" if self.p_rule is not None else f"covariance={self.covariance!r}"
            raise ValueError(
                f"FairLogisticRegression({what}) needs sensitive_features: fit(X, y, sensitive_features=...), or the names "
                "of columns of a DataFrame as sensitive=[...]."
            )
        if given is None:
            absent = [name for name in named if name not in getattr(X, "columns", ())]
            if absent:
                raise ValueError(f"sensitive names {', '.join(map(str, absent))}, which X has no column of.")
            given = X[named]
        elif named:
            raise ValueError("sensitive= and sensitive_features= were both given; expected one of them.")
        return read_sensitive(given, attributes=known) if known else read_sensitive(given)

    def _need_groups(self, task: Task) -> None:
        assert task.sensitive is not None
        continuous = [a.name for a in task.sensitive.attributes if a.kind == "continuous"]
        if continuous:
            raise ValueError(
                f"The p%-rule compares groups and {', '.join(continuous)} is continuous. Use covariance=..., or cut it into "
                "ranges first, e.g. with pandas.cut."
            )

    def _choice(self, task: Task) -> Choice | None:
        if self.p_rule is None:
            return None
        self._need_groups(task)
        options: dict[str, Any] = {"confidence": self.confidence, "seed": int(self.random_state)}
        if self.search == "batch":
            return choose_by_batch(task, self.p_rule, **options)
        return choose(task, self.p_rule, folds=self.folds, **options)

    def _warn_of_gap(self, result: Result) -> None:
        """Passes can run out before the tolerance is met; it matters where the gap would show."""
        gap = result.trace["gap"].iloc[-1] if "gap" in result.trace else 0.0
        if gap > 1e-6:
            warnings.warn(
                f"The passes ran out at a duality gap of {gap:.1e}. The classifier satisfies its constraint and may be less "
                "accurate than it could be. Give more passes, or drop features that repeat one another.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _warn_of_few(self, task: Task, threshold: Any) -> None:
        """The trap of a constraint that a handful of rows can satisfy for all others."""
        few = carried_by_few(build(task, threshold, fill=False)[0].data)
        few = [(j, rows) for j, rows in few if j < task.X.shape[1]]
        if few:
            names = getattr(self, "feature_names_in_", np.arange(task.X.shape[1]))
            said = ", ".join(f"{names[j]} ({rows} rows)" for j, rows in few[:8]) + (", ..." if len(few) > 8 else "")
            warnings.warn(
                f"A handful of rows can carry the covariance by themselves: {said}. Their coefficients can satisfy the "
                "constraint without making anything fair. Merge rare categories, drop these columns, or use a smaller "
                "radius.",
                stacklevel=3,
            )


def _is_number(value: Any) -> bool:
    """A finite number, and not a boolean."""
    return (
        isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool) and np.isfinite(value)
    )
