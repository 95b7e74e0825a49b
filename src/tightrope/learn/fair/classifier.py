"""Logistic regression that meets a fairness constraint, as a scikit-learn classifier."""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from tightrope._threads import PRODUCT, threads_for
from tightrope.aside import aside
from tightrope.confidence import USUAL
from tightrope.files import About, Arrays, Form
from tightrope.given import unmasked
from tightrope.learn import parameters
from tightrope.learn.fair.by_covariance import SEARCHES, choose, walked
from tightrope.learn.fair.by_rates import CONSTRAINTS, asked_of, check_constraint
from tightrope.learn.fair.page import classifier_page
from tightrope.learn.fair.refusal import Refused
from tightrope.learn.fair.report import FairnessReport, fairness_report
from tightrope.learn.fair.split import JUDGES
from tightrope.learn.fair.streaming import FairStream
from tightrope.learn.fair.task import (
    FEATURES,
    Task,
    at_hand,
    features_of,
    has_second_label,
    read_labels,
    read_task,
    sensitive_columns,
)
from tightrope.learn.fair.training import build, train, warn_of_few, warn_of_gap
from tightrope.learn.fair.walk import Walk
from tightrope.learn.fairness.notions import NOTIONS
from tightrope.learn.fairness.sensitive import Attribute, read_sensitive
from tightrope.learn.loss import LOSS
from tightrope.learn.model_file import SavedModel
from tightrope.learn.problems.fair import carried_by_few
from tightrope.learn.sentences import in_a_sentence
from tightrope.methods import Method
from tightrope.pages.elements import write_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_A_NAME = parameters.Allowed(
    lambda v: isinstance(v, str | Iterable), "the name of a column, or a list of names", TypeError
)
_RULES = {
    "p_rule": parameters.share("a share between 0 and 1, such as 0.8 for the 80 % rule").or_none(),
    "difference": parameters.share("a share between 0 and 1, such as 0.05").or_none(),
    "constraint": parameters.one_of(tuple(CONSTRAINTS)),
    "judge": parameters.one_of(JUDGES),
    "notion": parameters.one_of(NOTIONS),
    "search": parameters.one_of(SEARCHES),
    "method": parameters.METHOD,
    "radius": parameters.POSITIVE,
    "tol": parameters.POSITIVE,
    "passes": parameters.POSITIVE.or_none(),
    "l2": parameters.number(lambda v: v >= 0, "a number of at least 0"),
    "selected": parameters.Allowed(
        lambda v: v is None or (isinstance(v, tuple | list) and len(v) == 2 and 0 <= v[0] < v[1] <= 1),
        "None or two shares, the lower one first, such as (0.1, 0.3)",
    ),
    "confidence": parameters.share("a number between 0 and 1"),
    "sensitive": _A_NAME.or_none(),
    "folds": parameters.whole_number(2),
    "fit_intercept": parameters.FLAG,
    "intersections": parameters.FLAG,
    "merge_rare": parameters.FLAG,
    "random_state": parameters.whole_number(0).or_none(),
}
_LEARNT = ("coef_", "intercept_", "result_", "dual_", "threshold_", "frontier_", "drawn_", "report_")
"""What a fit leaves, beside labels, features and attributes."""


class FairLogisticRegression(ClassifierMixin, SavedModel):
    """A linear classifier that treats groups alike: by a bound on their rates, or on a covariance.

    Say what you want, `p_rule=0.8` or `difference=0.05`. Classifiers are then trained with constraints on smoothed rates of
    groups, and the most accurate one is kept for which rows not trained on show, with `confidence`, that the rule holds. Or
    bound the covariance of score and sensitive attribute, `covariance=0.05` (Zafar et al., 2017): the mean logistic loss is
    minimised to a certified gap, the constraint holds on the training data, and `partial_fit` learns from a stream. With
    neither it is plain logistic regression.

    Features are standardised inside; `coef_` is in their own units. The sensitive attribute is used in training only.

    Args:
        p_rule: the p%-rule to keep, a share such as 0.8: no group's rate of positive decisions below that share of
            another's.
        covariance: the largest covariance: a number for all attributes, or a dict by name.
        difference: the largest difference of two groups' rates, such as 0.05.
        constraint: how `p_rule` or `difference` is kept: "rates", by smoothed rates; "covariance"; or "auto", the most
            accurate of three ways (two of smoothing, and the covariance), which share the error that `confidence` leaves.
            It is the covariance where `method` or `search` ask for that.
        judge: which rows show that rates are kept: "cross-fit", all of them, by models of the other folds, corrected for
            what the final model decides otherwise; or "holdout", 30 % of them, and the model that they judged is kept. The
            promise is for independent draws, and asymptotic.
        notion: whose rates are compared: "demographic_parity", everybody's; "equal_opportunity", of those with a positive
            label; "false_positive_rate_parity", with a negative one; "equalized_odds", both.
        selected: for rates, two shares, such as (0.1, 0.3), between which the share selected is to lie; an estimate, no
            promise.
        sensitive: columns of X (a DataFrame) that are sensitive, instead of `fit(sensitive_features=)`. They are not
            features.
        sensitive_as_features: use these columns as features all the same.
        sensitive_kind: what columns of numbers are: "categorical", codes of groups, or "continuous"; one word for all, or a
            dict by name. By default two different numbers are groups, and more are a quantity.
        intersections: of several attributes, also constrain the groups that they make together, as the attribute
            "sex & race". A dict `covariance` constrains them where it names them.
        merge_rare: treat groups that are too small to be judged as one, with a warning; see `merged_`. With False a rule may
            be refused for them.
        l2: coefficient of the penalty l2/2 |x|^2 on standardised coefficients; the intercept has none.
        class_weight: as in scikit-learn: None, "balanced" or a dict.
        fit_intercept: whether the score has a constant.
        radius: the radius of the ball of standardised coefficients. It keeps separable data from running off to infinity.
        method: "auto", the best for data at hand; "csoa", the paper's, one sample a step; or a method object.
        passes: the most passes over the data; by default 10, and some 300 for "auto", which stops by `tol`.
        tol: for "auto", the duality gap at which to stop, as a share of the objective.
        search: how the covariance is found for `p_rule`: "cross-validation"; or "batch", as in the paper, on 10,000 random
            rows that also judge.
        folds: the number of folds.
        confidence: the one-sided confidence that the rule is kept, the choice among classifiers counted in.
        scaling: for `partial_fit`, (means, deviations) of the features; by default those of the first batch.
        random_state: a whole number; the same one gives the same classifier. None draws another one for every fit.

    Attributes:
        coef_, intercept_: what the score is made of, shapes (1, n_features) and (1,), for features as given.
        classes_: the two labels; the second is the positive one.
        threshold_: the covariance, or a dict of them by attribute; by rates, what the smoothed ones were held at; None
            without a constraint.
        dual_: the multipliers, in the order of `result_.constraints`.
        result_: the run of `fit`, a `Result`, or by rates a `RatesRun`; print it. A classifier read from a file has its
            report_, as text.
        frontier_: for `p_rule` and `difference`, the classifiers that were judged.
        attributes_: the sensitive attributes, as they were read.
        merged_: by attribute and intersection, the groups that were treated as one.
        drawn_: which rows of files it was trained on, a sentence; empty where on all.
        n_features_in_, feature_names_in_: number and names of the features, without sensitive columns.

    Example:
        >>> import tightrope as tr
        >>> from tightrope.datasets import rotated_gaussians
        >>> from tightrope.learn.fairness.metrics import p_rule
        >>> X, y, s, _ = rotated_gaussians(n=2000, phi=0.8)
        >>> plain = tr.FairLogisticRegression().fit(X, y)
        >>> fair = tr.FairLogisticRegression(covariance=0.1).fit(X, y, sensitive_features=s)
        >>> bool(p_rule(fair.predict(X), s) > p_rule(plain.predict(X), s) + 0.2)
        True

    References:
        M. B. Zafar, I. Valera, M. Gomez Rodriguez, K. P. Gummadi: Fairness Constraints: Mechanisms for Fair Classification,
        AISTATS 2017.
    """

    coef_: np.ndarray
    intercept_: np.ndarray
    classes_: np.ndarray
    result_: Any  # Result or RatesRun
    dual_: np.ndarray
    threshold_: Any
    frontier_: Any
    attributes_: tuple[Attribute, ...]
    drawn_: str
    n_features_in_: int
    feature_names_in_: np.ndarray
    _stream: FairStream | None  # what partial_fit goes on from
    _form = Form("fair classifier", 1, "Fit and save the classifier again.")

    def __init__(
        self,
        p_rule: float | None = None,
        covariance: Any = None,
        *,
        difference: float | None = None,
        constraint: str = "auto",
        judge: str = "cross-fit",
        notion: str = "demographic_parity",
        selected: Any = None,
        sensitive: Any = None,
        sensitive_as_features: bool = False,
        sensitive_kind: Any = None,
        intersections: bool = True,
        merge_rare: bool = True,
        l2: float = 0.0,
        class_weight: Any = None,
        fit_intercept: bool = True,
        radius: float = 10.0,
        method: str | Method = "auto",
        passes: float | None = None,
        tol: float = 1e-12,
        search: str = "cross-validation",
        folds: int = 5,
        confidence: float = USUAL,
        scaling: Any = None,
        random_state: int | None = 0,
    ):
        self.p_rule = p_rule
        self.covariance = covariance
        self.difference = difference
        self.constraint = constraint
        self.judge = judge
        self.notion = notion
        self.selected = selected
        self.sensitive = sensitive
        self.sensitive_as_features = sensitive_as_features
        self.sensitive_kind = sensitive_kind
        self.intersections = intersections
        self.merge_rare = merge_rare
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
            X: features: an array, a sparse matrix, or a table of pandas, polars or pyarrow. Or Parquet files, which need not
                fit into memory: the path of a folder, or a `Parquet` that says which columns; sensitive ones are then named
                by `sensitive`. Of more than 200,000 rows in files so many are drawn at random, by the random state; `drawn_`
                and `report` say so.
            y: labels of two kinds; of files, the name of the column.
            sensitive_features: a column or several: binary, categorical or continuous. Required with a constraint.
            sample_weight: a weight for each row, not negative; of files, the name of the column. Rates and accuracy are
                judged by these weights, too; those of `class_weight` are for training alone.

        Raises:
            Refused: where `p_rule` cannot be promised; it says what binds and what can be had, and `frontier()` has the
                path that was tried.
        """
        with aside(self, even_after=Refused) as new:
            new._check_parameters()
            new._forget()
            seed = new._seed()
            X, y, sample_weight, new.drawn_ = at_hand(X, y, sensitive_features, sample_weight, seed)
            task = read_task(new, X, y, sensitive_features, sample_weight).with_weight()
            new.attributes_, new._stream = () if task.sensitive is None else task.sensitive.attributes, None
            try:
                with threads_for(*task.X.shape, worth=PRODUCT):
                    new._fit_by_covariance(task, seed) if asked_of(new) is None else new._fit_by_rates(task, seed)
            except Refused as refused:  # no classifier is left, not even an earlier one, but the path that was tried
                new._forget()
                new.frontier_ = refused.frontier
                raise
        return self

    def _forget(self) -> None:
        """Remove what an earlier fit has left, so that nothing of it stands beside what is learnt now."""
        for name in set(_LEARNT) & vars(self).keys():
            delattr(self, name)

    def _fit_by_rates(self, task: Task, seed: int) -> None:
        run = self._walk(task, seed).choose(CONSTRAINTS[self.constraint])
        self.coef_, self.intercept_ = run.coef[None], np.array([run.intercept])
        self.result_, self.dual_ = run, run.dual
        self.threshold_, self.frontier_ = run.threshold, run.frontier

    def _walk(self, task: Task, seed: int) -> Walk:
        asked, folds, confidence = asked_of(self), int(self.folds), float(self.confidence)
        assert asked is not None
        return Walk(task, asked, judge=self.judge, folds=folds, confidence=confidence, seed=seed)

    def _fit_by_covariance(self, task: Task, seed: int) -> None:
        built, threshold, frontier = build(task), self.covariance, None
        if self.p_rule is not None:
            options: dict[str, Any] = {"search": self.search, "folds": self.folds, "confidence": self.confidence}
            threshold, frontier = choose(built, self.p_rule, **options, seed=seed)
        built = built.at(threshold)
        few = [] if task.sensitive is None else carried_by_few(built.rows_once())
        warn_of_few(few, getattr(self, "feature_names_in_", range(self.n_features_in_)))
        trained = train(built, method=self.method, passes=self.passes, tol=self.tol, seed=seed)
        warn_of_gap(trained.result, len(built.scaling.mean), len(task.y))
        self.coef_, self.intercept_ = trained.coef[None], np.array([trained.intercept])
        self.result_, self.dual_ = trained.result, np.asarray(trained.result.dual)
        self.threshold_, self.frontier_ = dict(threshold) if isinstance(threshold, Mapping) else threshold, frontier

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
        if self.p_rule is not None or self.difference is not None:
            asked = f"p_rule={self.p_rule:g}" if self.p_rule is not None else f"difference={self.difference:g}"
            raise ValueError(
                f"partial_fit cannot keep {asked}: to find the threshold it would have to see all the data. Use "
                "covariance=..., e.g. the threshold_ that fit finds with constraint='covariance' on a part of the data."
            )
        with aside(self) as new:
            stream = getattr(new, "_stream", None)
            known = None if stream is None else getattr(new, "attributes_", ())
            task = read_task(new, X, y, sensitive_features, sample_weight, classes, known)
            if stream is None:
                new._forget()
                stream = FairStream.start(task, new.covariance, new.scaling, new.method)
            new._stream = stream = stream.after(task)
            coef, intercept, new.dual_ = stream.learnt()
            new.coef_, new.intercept_ = coef[None], np.array([intercept])
            new.threshold_, new.frontier_ = new.covariance, None
            new.attributes_ = () if task.sensitive is None else task.sensitive.attributes
        return self

    @property
    def merged_(self) -> dict[str, tuple[str, ...]]:
        """By attribute, the groups that are treated as one."""
        return {a.name: a.merged for a in self.attributes_ if a.merged}

    # ---- deciding ----------------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> np.ndarray:
        """The score of each row; the second label is predicted where it is positive."""
        check_is_fitted(self, "coef_")
        X = unmasked("X", X)
        with in_a_sentence("X", FEATURES):
            X = validate_data(self, features_of(self, X), reset=False, dtype=np.float64, accept_sparse="csr")
        return X @ self.coef_[0] + self.intercept_[0]

    def predict(self, X: Any) -> np.ndarray:
        """The predicted label of each row."""
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of both labels, shape (n, 2), in the order of `classes_`."""
        positive = LOSS.chance(self.decision_function(X))
        return np.column_stack([1 - positive, positive])

    # ---- fairness and accuracy ---------------------------------------------------------------------------------------

    def frontier(self, X: Any = None, y: Any = None, sensitive_features: Any = None, sample_weight: Any = None):
        """Accuracy against the p%-rule along a path of thresholds, with intervals, from out-of-fold predictions.

        After `fit` with `p_rule` the path is there, also where the rule was refused; otherwise give the training data.
        Columns: threshold, accuracy and p_rule with two-sided 95 % intervals (_low, _high), p_rule_bound (one-sided, with
        the confidence asked for), selected (the share decided positive), the pair of groups that binds (group, against), by
        how many standard errors it keeps the rule (score), and passed: up to the first threshold that does not show it kept.
        """
        if X is None:
            known = getattr(self, "frontier_", None)
            if known is None:
                raise ValueError(
                    "frontier() is known after fit with p_rule; otherwise give it X, y and sensitive_features."
                )
            return known.copy()
        asked: dict[str, Any] = {"covariance": None} | ({} if self.p_rule or self.difference else {"p_rule": 0.8})
        twin = type(self)(**(self.get_params(deep=False) | asked))
        twin._check_parameters()
        task = read_task(twin, X, y, sensitive_features, sample_weight).with_weight()
        with threads_for(*task.X.shape, worth=PRODUCT):
            if asked_of(twin) is not None:
                return twin._walk(task, self._seed()).frontier(CONSTRAINTS[twin.constraint])
            options: dict[str, Any] = {"p_rule": twin.p_rule, "folds": self.folds, "confidence": self.confidence}
            return walked(build(task), **options, seed=self._seed())

    def plot_frontier(self, path: str | None = None, frontier: pd.DataFrame | None = None) -> "Figure":
        """Draw the frontier, with the threshold chosen; saved to `path` where one is given."""
        from tightrope.learn.fair.picture import plot_frontier

        table = self.frontier() if frontier is None else frontier
        chosen = getattr(self, "threshold_", None)
        return plot_frontier(table, self.p_rule, chosen if isinstance(chosen, float) else None, path)

    def report(
        self,
        X: Any,
        y: Any = None,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        *,
        path: str | Path | None = None,
    ) -> FairnessReport:
        """What the classifier gives to each group and intersection: rates, ratios and differences, with intervals.

        Print it, show it in a notebook, or take its `frame`; `by_group` and `summary` have the numbers of fairlearn's
        MetricFrame. Meant for rows that the classifier has not seen.

        Args:
            X: features.
            y: the labels; without them there are selection rates alone.
            sensitive_features: the attributes, any, unless `sensitive` names columns of X.
            sample_weight: a weight for each row, not negative.
            path: where to write all of it as a page, with the run of `fit`: one HTML file that opens without a network.

        Example:
            >>> import tightrope as tr
            >>> from tightrope.datasets import rotated_gaussians
            >>> X, y, s, _ = rotated_gaussians(n=640, phi=0.8)
            >>> report = tr.FairLogisticRegression().fit(X, y).report(X, y, s)
            >>> report.summary()["metric"].tolist()
            ['selection_rate', 'accuracy', 'true_positive_rate', 'false_positive_rate']
            >>> report.frame.shape
            (8, 15)
        """
        X = unmasked("X", X)
        given = sensitive_columns(self, X, sensitive_features)
        if given is None:
            raise ValueError("report needs sensitive_features: report(X, y, sensitive_features=...).")
        decided = self.decision_function(X) > 0
        truth = None if y is None else has_second_label(self, read_labels(y))
        read = read_sensitive(given, kind=self.sensitive_kind)
        report = fairness_report(decided, read, truth, sample_weight=sample_weight, confidence=self.confidence)
        merged = getattr(self, "attributes_", ()) and self.merged_
        notes = [
            f"The classifier was trained with these groups of {name} as one, too rare to be judged: {', '.join(groups)}."
            for name, groups in dict(merged).items()
        ]
        notes += [f"To train it, {self.drawn_}"] if getattr(self, "drawn_", "") else []
        report = dataclasses.replace(report, notes=tuple(notes))
        if path is not None:
            write_page(path, classifier_page(self, report))
        return report

    # ---- on disk -----------------------------------------------------------------------------------------------------

    def _to_file(self, path: Path) -> tuple[Arrays, About]:
        """What the classifier has learnt; the state of a stream is not kept."""
        check_is_fitted(self, "coef_")
        arrays = {"coef": self.coef_, "intercept": self.intercept_, "dual": np.asarray(self.dual_, float)}
        return arrays, {
            "threshold": self.threshold_,
            "attributes": [[a.name, a.kind, a.groups, a.cells] for a in self.attributes_],
            "frontier": None if self.frontier_ is None else self.frontier_.to_dict("list"),
        }

    def _from_file(self, arrays: dict[str, np.ndarray], about: About) -> None:
        self.coef_, self.intercept_, self.dual_ = arrays["coef"], arrays["intercept"], arrays["dual"]
        self.n_features_in_, self.threshold_ = self.coef_.shape[1], about["threshold"]
        self.attributes_ = tuple(
            Attribute(name, kind, tuple(groups), tuple(tuple(map(tuple, group)) for group in cells))
            for name, kind, groups, cells in about["attributes"]
        )
        self.frontier_ = None if about["frontier"] is None else pd.DataFrame(about["frontier"])

    # ---- what was given, checked -------------------------------------------------------------------------------------

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def _seed(self) -> int:
        """The random state, or one drawn as scikit-learn does, which np.random.seed decides."""
        drawn = check_random_state(None).randint(2**31) if self.random_state is None else self.random_state
        return int(drawn)

    def _check_parameters(self) -> None:
        parameters.check_parameters(self, _RULES)
        given = [name for name in ("p_rule", "difference", "covariance") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(
                f"{' and '.join(given)} were {'both' if len(given) == 2 else 'all'} given; expected one of them: each says "
                "how fair the classifier is to be."
            )
        check_constraint(self)
