"""The metric you want, under the metrics you must keep, with proof: a threshold for any classifier."""

import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import _safe_indexing, assert_all_finite, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
)

from tightrope._errors import shown
from tightrope.aside import aside
from tightrope.confidence import USUAL
from tightrope.files import About, Arrays, FileError, Form
from tightrope.given import unmasked
from tightrope.learn import parameters
from tightrope.learn.constrained.asked import Asked, Constraint, read_asked
from tightrope.learn.constrained.certificate import (
    CertificationError,
    CertificationWarning,
    ThresholdCertificate,
    certificate_of,
)
from tightrope.learn.constrained.draws import draws
from tightrope.learn.constrained.held_out import HeldOut, Judges
from tightrope.learn.constrained.linear import SurrogateClassifier
from tightrope.learn.constrained.page import threshold_page
from tightrope.learn.constrained.search import by_estimate, walk
from tightrope.learn.fair.task import LABELS, read_labels
from tightrope.learn.fairness.sensitive import read_sensitive
from tightrope.learn.model_file import SavedModel
from tightrope.learn.sentences import in_a_sentence
from tightrope.pages.elements import write_page
from tightrope.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PREFIT = "prefit"
_STREAM = 0x5B17  # names a stream of random numbers, other than that of who made data with this seed; any would do
DEFAULT = {"fpr": 0.05}
"""What `subject_to=None` means; by hand."""

_SHARE, _FOLDS = parameters.share("a share such as 0.5"), parameters.whole_number(2)
_RULES = {
    "confidence": parameters.share("a number between 0 and 1"),
    "estimator": parameters.Allowed(
        lambda v: callable(getattr(v, "fit", None)) and not isinstance(v, type),
        "an estimator, an object with fit and predict_proba or decision_function, or None for a linear one",
        TypeError,
    ).or_none(),
    "max_weight": parameters.Allowed(
        lambda v: all(
            parameters.POSITIVE.holds(w) for w in (v if isinstance(v, list | tuple) and len(v) == 2 else [v])
        ),
        "a positive number, the largest weight that a row can have, or two of them, for negative and for positive rows",
    ).or_none(),
    "uncertified": parameters.one_of(("warn", "raise")),
    "random_state": parameters.whole_number(0),
}


class _Task(NamedTuple):
    """What `fit` was given, read and checked."""

    X: Any
    positive: np.ndarray
    weight: np.ndarray | None
    groups: Mapping[tuple[str, Any], np.ndarray]
    most: tuple[float, float]
    draw: np.ndarray | None

    def take(self, rows: np.ndarray) -> "_Task":
        """The same with some of the rows."""
        weight, draw = (None if part is None else part[rows] for part in (self.weight, self.draw))
        groups = {name: mask[rows] for name, mask in self.groups.items()}
        return _Task(_safe_indexing(self.X, rows), self.positive[rows], weight, groups, self.most, draw)


class ConstrainedClassifier(MetaEstimatorMixin, ClassifierMixin, SavedModel):
    """A classifier that maximises one metric while others keep their limits, with a certificate.

    "Find as many frauds as possible while at most 0.3 % of the honest are accused": `maximize="recall",
    subject_to={"fpr": 0.003}`. The classifier given is trained on a part of the rows. The other rows judge which thresholds
    of its score keep all limits on rows to come, with the confidence asked for, and the best of these is taken.
    `certificate_` says what was shown; print it. What is proven, and how: docs/constrained.md.

    Metrics: fpr, fnr, recall, precision, specificity, accuracy, selection_rate, and cost, the mean of what false positives
    and false negatives cost (`costs=`). Put a search for hyperparameters inside, `ConstrainedClassifier(GridSearchCV(...))`:
    around it, the rows that judge would also choose, and certify nothing.

    Args:
        estimator: any binary classifier with `decision_function` or `predict_proba`. None trains a linear score under convex
            bounds on the same limits.
        maximize: a metric; with a minus, such as "-fnr" or "-cost", one to be minimised.
        subject_to: limits by metric, {"fpr": 0.003} or {"precision": 0.9}, in the natural direction; others are written,
            {"selection_rate": "<= 0.2"}, and a list has several. "fpr by group" is a limit in every group of
            `fit(sensitive_features=...)`. By default {"fpr": 0.05}.
        confidence: the probability, at least, that all limits are kept.
        costs: for the metric "cost", such as {"fp": 1, "fn": 10}.
        positive_label: the label that is looked for; by default the last in order.
        cv: which rows judge. A share, such as 0.5: so many are held out and judge the model that the others trained, which
            is proven. "prefit": the estimator is trained and all rows given judge; proven as well, if it has not seen them.
            A number of folds, or a list of splits: all rows judge by cross-fitted scores, and the model is trained on all
            rows; that holds for many rows at best, and the certificate says so.
        max_weight: with `sample_weight`, the largest weight that any row can have, those to come included; or two, of
            negative and of positive rows. No rows tell how much a rare one weighs, so without it nothing is certified for
            weighted rows.
        uncertified: what to do where the limits cannot be certified: "warn", with a `CertificationWarning`, and take the
            threshold that keeps them by estimates; or "raise" a `CertificationError`. Both say what is missing.
        random_state: a whole number; decides which rows judge.

    Attributes:
        certificate_: a `ThresholdCertificate`; `certificate_.holds` is True where every limit is certified.
        threshold_: rows whose score is above it are predicted positive.
        estimator_: the trained classifier.
        classes_: the two labels, in order.
        positive_label_: the one that is looked for.
        held_out_: scores and labels of the rows that judged, for `plot`.

    Example:
        >>> import numpy as np, tightrope as tr
        >>> from sklearn.linear_model import LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> y = rng.random(4000) < 0.3
        >>> X = rng.normal(size=(4000, 2)) + 2 * y[:, None]
        >>> model = tr.ConstrainedClassifier(LogisticRegression(), subject_to={"fpr": 0.02}).fit(X, y)
        >>> print(model.certificate_.verdict)
        With 95 % confidence: fpr <= 0.02.
        >>> bool(model.predict(X)[y].mean() > 0.7)
        True
    """

    classes_: np.ndarray
    certificate_: ThresholdCertificate
    threshold_: float
    held_out_: HeldOut
    _form = Form("constrained classifier", 1, "Fit and save the classifier again.")

    def __init__(
        self,
        estimator: Any = None,
        *,
        maximize: str = "recall",
        subject_to: Any = None,
        confidence: float = USUAL,
        costs: Any = None,
        positive_label: Any = None,
        cv: Any = 0.5,
        max_weight: Any = None,
        uncertified: str = "warn",
        random_state: int = 0,
    ):
        self.estimator = estimator
        self.maximize = maximize
        self.subject_to = subject_to
        self.confidence = confidence
        self.costs = costs
        self.positive_label = positive_label
        self.cv = cv
        self.max_weight = max_weight
        self.uncertified = uncertified
        self.random_state = random_state

    @property
    def asked(self) -> Asked:
        """What the parameters ask for, read and checked."""
        return read_asked(self.maximize, DEFAULT if self.subject_to is None else self.subject_to, self.costs)

    # ---- learning --------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, sensitive_features: Any = None) -> "ConstrainedClassifier":
        """Train on some rows, and choose and certify the threshold by others.

        Args:
            X: features, as the estimator takes them.
            y: labels of two kinds.
            sample_weight: a weight for each row. The estimator is trained with them, and metrics are those of weighted rows.
                What is shown holds for weights up to `max_weight`; without that, nothing is certified.
            sensitive_features: a column or several of groups, for limits "by group".
        """
        with aside(self) as new:
            parameters.check_parameters(new, _RULES)
            asked = new.asked
            task = new._read(X, y, sample_weight, sensitive_features, asked)
            limits = asked.in_groups(list(task.groups))
            judges = new._held_out(task, asked, limits)
            found = walk(asked, limits, judges.rows, new.confidence, int(new.random_state))
            cut = found.cut if found.passed else by_estimate(asked, limits, judges.rows)
            if cut is None:  # where a classifier cuts its scores by itself
                cut = 0.0 if hasattr(new.estimator_, "decision_function") else 0.5
            weights = None if task.weight is None else "seen" if new.max_weight is None else "known"
            certificate = certificate_of(asked, limits, found, cut, new.confidence, judges, weights)
            said = "\n".join([certificate.verdict, *certificate.missing])
            if not certificate.holds and new.uncertified == "raise":
                raise CertificationError(said)
            if not certificate.holds:
                why = (
                    "the best under this condition" if found.passed else "the best by estimates, without any confidence"
                )
                warnings.warn(f"{said}\nThe threshold {cut:.6g} is {why}.", CertificationWarning, stacklevel=2)
            for note in certificate.notes if certificate.holds else ():
                if note.startswith("Nobody"):
                    warnings.warn(f"{certificate.verdict} {note}", CertificationWarning, stacklevel=2)
            new.certificate_, new.threshold_, new.held_out_ = certificate, cut, found.judging.once()
        return self

    def _read(self, X: Any, y: Any, sample_weight: Any, sensitive_features: Any, asked: Asked) -> _Task:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        X, y, sample_weight = unmasked("X", X), read_labels(y), unmasked("sample_weight", sample_weight)
        with in_a_sentence("y", LABELS):
            X, y = indexable(X, y)
            y = column_or_1d(y, warn=True)
            assert_all_finite(y, input_name="y")
            check_classification_targets(y)
        n = _num_samples(X)
        weight = None
        if sample_weight is not None:
            with in_a_sentence("sample_weight", "a number for each row"):
                weight = _check_sample_weight(
                    sample_weight, np.empty((n, 1)), dtype=np.float64, ensure_non_negative=True
                )
        counted = np.arange(n) if weight is None else np.flatnonzero(weight > 0)
        labels = np.unique(y)
        if len(labels) > 2:
            kind = type_of_target(y, input_name="y", raise_unknown=True)
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        if len(np.unique(y[counted])) < 2:
            raise ValueError("y has only one class (among the rows with weight); expected two.")
        self.classes_ = labels
        known = labels[-1] if self.positive_label is None else self.positive_label
        if np.ndim(known) or known not in labels.tolist():
            raise ValueError(
                f"positive_label is {shown(known)}, and y has the labels {labels.tolist()}; expected one of these."
            )
        self.positive_label_ = labels[labels.tolist().index(known)]
        positive = y == self.positive_label_
        most = (1.0, 1.0) if weight is None else self._largest_weights(weight, positive)
        groups = self._groups(sensitive_features, n, asked)
        with in_a_sentence("X", "features as the estimator takes them"):
            draw = draws(X, positive, *groups.values())
        return _Task(X, positive, weight, groups, most, draw)

    def _largest_weights(self, weight: np.ndarray, positive: np.ndarray) -> tuple[float, float]:
        """The largest weight that a negative and a positive row can have: as was said, or the largest of all given."""
        seen = (float(weight[~positive].max()), float(weight[positive].max()))
        if self.max_weight is None:
            return seen
        one = np.ndim(self.max_weight) == 0
        negative, positive_most = (float(w) for w in ([self.max_weight] * 2 if one else self.max_weight))
        if seen[0] > negative or seen[1] > positive_most:
            raise ValueError(
                f"max_weight is {self.max_weight!r}, and sample_weight has a weight of {seen[0]:g} in a negative row and of "
                f"{seen[1]:g} in a positive one; expected the largest that any row can have."
            )
        return negative, positive_most

    def _groups(self, given: Any, n: int, asked: Asked) -> dict[tuple[str, Any], np.ndarray]:
        if not asked.by_group:
            return {}
        if given is None:
            raise ValueError("A limit by group needs to know the groups: fit(X, y, sensitive_features=...).")
        read = read_sensitive(given)
        if len(read) != n:
            raise ValueError(f"sensitive_features has {len(read):,} rows and X has {n:,}; expected as many.")
        continuous = [attribute.name for attribute in read.attributes if not attribute.groups]
        if continuous:
            raise ValueError(
                f"{', '.join(continuous)} is continuous and has no groups, in which a limit could hold. Cut it into ranges "
                "first, e.g. with pandas.cut, or give codes of groups as text."
            )
        return {
            (attribute.name, group): read.groups(i) == k
            for i, attribute in enumerate(read.attributes)
            for k, group in enumerate(attribute.groups)
        }

    def _held_out(self, task: _Task, asked: Asked, limits: tuple[Constraint, ...]) -> Judges:
        """Rows with scores by models that were not trained on them; sets `estimator_`, the model that is kept."""
        n = len(task.positive)
        if isinstance(self.cv, str):
            if self.cv != PREFIT or self.estimator is None:
                raise ValueError(
                    f"cv is {self.cv!r}; expected a share such as 0.5, a number of folds, splits, or 'prefit' for "
                    "an estimator that is given and trained."
                )
            check_is_fitted(self.estimator)
            self.keep(self.estimator)
            basis = "Judged by {} rows, {} of them positive, which the estimator must not have been trained on."
            return Judges(self._judged(task, self._scores(self.estimator, task.X)), False, basis)
        splits = list(self._splits(task, asked))
        both = max((len(np.intersect1d(train, judge)) for train, judge in splits), default=0)
        if both:
            raise ValueError(
                f"cv has a split in which {both:,} rows are to train and to judge; expected none in both: a model is not "
                "judged by rows that it was trained on."
            )
        draw = np.arange(n) if task.draw is None else task.draw
        trained_on = sum(int(np.isin(draw[judge], draw[train]).sum()) for train, judge in splits)
        if len(splits) == 1:
            train, judge = splits[0]
            self.keep(self._trained(task.take(train), asked, limits))
            part = task.take(judge)
            basis = "Judged by {} rows, {} of them positive, on which it was not trained."
            judged = self._judged(part, self._scores(self.estimator_, part.X))
            return Judges(judged, False, basis, len(judge) / n, trained_on)
        scores = np.full(n, np.nan)
        for train, judge in splits:
            scores[judge] = self._scores(self._trained(task.take(train), asked, limits), task.take(judge).X)
        self.keep(self._trained(task, asked, limits))
        kept = self._scores(self.estimator_, task.X)
        seen = np.isfinite(scores)
        basis = (
            f"Judged by {{}} rows, {{}} of them positive, scored by {len(splits)} models that had not seen them; the one "
            "that is kept has seen all, and its own decisions have to show the limits, too."
        )
        judged = self._judged(task.take(np.flatnonzero(seen)), scores[seen], kept[seen])
        return Judges(judged, True, basis, float(seen.mean()), trained_on)

    def _splits(self, task: _Task, asked: Asked) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows to train on and rows to judge by."""
        seed, n = int(self.random_state), len(task.positive)
        if _SHARE.holds(self.cv):
            counted = np.ones(n, bool) if task.weight is None else task.weight > 0
            yield one_split(task.positive, counted, float(self.cv), seed, asked.within_classes, task.draw)
        elif _FOLDS.holds(self.cv):
            from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

            kind = StratifiedKFold if task.draw is None else StratifiedGroupKFold
            yield from kind(int(self.cv), shuffle=True, random_state=seed).split(np.zeros(n), task.positive, task.draw)
        elif hasattr(self.cv, "split"):
            yield from self.cv.split(np.zeros(n), task.positive)
        elif hasattr(self.cv, "__iter__"):
            with in_a_sentence(
                "cv", "a share, a number of folds, or at least one pair of rows to train on and to judge by"
            ):
                splits = [(np.asarray(train), np.asarray(judge)) for train, judge in self.cv]
                if not splits:
                    raise ValueError("cv has no splits; expected at least one.")
            yield from splits
        else:
            raise ValueError(
                f"cv is {self.cv!r}; expected a share such as 0.5, a number of folds, splits of the rows, or 'prefit'."
            )

    def _trained(self, part: _Task, asked: Asked, limits: tuple[Constraint, ...]) -> Any:
        if len(np.unique(part.positive if part.weight is None else part.positive[part.weight > 0])) < 2:
            raise ValueError(
                f"All {len(part.positive):,} rows to train on have the same class; expected both. Give more, or another cv."
            )
        if self.estimator is None:
            linear = SurrogateClassifier(asked, limits, random_state=int(self.random_state))
            return linear.fit(part.X, part.positive, sample_weight=part.weight, groups=part.groups)
        estimator: Any = clone(self.estimator)
        labels = self._labels(part.positive)
        if part.weight is None:
            return estimator.fit(part.X, labels)
        if not has_fit_parameter(estimator, "sample_weight"):
            raise TypeError(
                f"sample_weight was given and {type(estimator).__name__}.fit takes none; leave it out, or give an estimator "
                "that takes weights."
            )
        return estimator.fit(part.X, labels, sample_weight=part.weight)

    def keep(self, estimator: Any) -> None:
        """Take a trained estimator for the one whose scores are cut."""
        self.estimator_ = estimator
        for name in ("n_features_in_", "feature_names_in_"):
            vars(self).pop(name, None)
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))

    def _judged(self, part: _Task, scores: np.ndarray, kept: np.ndarray | None = None) -> HeldOut:
        weight = np.ones(len(scores)) if part.weight is None else part.weight
        return HeldOut(scores, part.positive, weight, part.groups, part.most, kept, part.draw).take(weight > 0)

    # ---- deciding ----------------------------------------------------------------------------------------------------

    def _labels(self, positive: np.ndarray) -> np.ndarray:
        other = self.classes_[0] if self.positive_label_ == self.classes_[-1] else self.classes_[-1]
        return np.where(positive, self.positive_label_, other).astype(self.classes_.dtype)

    def _scores(self, estimator: Any, X: Any) -> np.ndarray:
        """The score of each row, higher for the label that is looked for."""
        X = unmasked("X", X)
        if isinstance(estimator, SurrogateClassifier):
            return estimator.decision_function(X)
        place = estimator.classes_.tolist().index(self.positive_label_)
        if hasattr(estimator, "decision_function"):
            score = np.asarray(estimator.decision_function(X), float)
            return score if place == 1 else -score
        if hasattr(estimator, "predict_proba"):
            return np.asarray(estimator.predict_proba(X), float)[:, place]
        raise TypeError(
            f"{type(estimator).__name__} has neither decision_function nor predict_proba; expected a classifier with one."
        )

    def decision_function(self, X: Any) -> np.ndarray:
        """How far the score of each row is above the threshold; that of the second of `classes_` where it is positive."""
        check_is_fitted(self, "certificate_")
        score = self._scores(self.estimator_, X)
        if self.positive_label_ == self.classes_[-1]:
            return score - self.threshold_
        return np.nextafter(self.threshold_, np.inf) - score  # a score at the threshold is not above it

    def predict(self, X: Any) -> np.ndarray:
        """The predicted label of each row."""
        check_is_fitted(self, "certificate_")
        return self._labels(self._scores(self.estimator_, X) > self.threshold_)

    def _base_has_proba(self) -> bool:
        return hasattr(getattr(self, "estimator_", self.estimator), "predict_proba")

    @available_if(_base_has_proba)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The estimator's own probabilities, in the order of `classes_`; decisions follow the threshold, not these."""
        check_is_fitted(self, "certificate_")
        return self.estimator_.predict_proba(X)

    # ---- a picture, and on disk ----------------------------------------------------------------------------------------

    def plot(self, path: str | None = None) -> "Figure":
        """Draw the ROC curve of the rows that judged, the threshold with its intervals, and the limits; saved to `path`."""
        from tightrope.learn.constrained.picture import draw_roc

        check_is_fitted(self, "certificate_")
        return draw_roc(self.held_out_, self.certificate_, self.asked, path)

    def report(self, path: str | Path) -> Path:
        """Write the certificate, and what it stands on, as a page: one HTML file that opens without a network."""
        check_is_fitted(self, "certificate_")
        run = getattr(self.estimator_, "result_", None)
        judged = getattr(self, "held_out_", None)
        return write_page(path, threshold_page(self.certificate_, judged, run if isinstance(run, Result) else None))

    def _to_file(self, path: Path) -> tuple[Arrays, About]:
        """A linear score of its own, the threshold and its certificate, and what its picture is drawn from."""
        check_is_fitted(self, "certificate_")
        linear, rows = self.estimator_, self.held_out_
        if not isinstance(linear, SurrogateClassifier):
            raise FileError(
                f"{path} was not written: the classifier wraps {type(linear).__name__}, and only estimator=None can be "
                "saved without pickle. Use joblib or skops for others."
            )
        if not isinstance(self.cv, int | float | str):
            raise FileError(
                f"{path} was not written: cv holds splits of rows, which are not kept; expected a share or a number."
            )
        arrays = {
            "coef": linear.coef_, "intercept": linear.intercept_, "threshold": np.array([self.threshold_]),
            "scores": rows.score, "positive": rows.positive.astype(np.uint8), "weight": rows.weight,
            "most": np.array(rows.most),
        }  # fmt: skip
        return arrays, {
            "positive": self.classes_.tolist().index(self.positive_label_),
            "certificate": dataclasses.asdict(self.certificate_),
            "report": str(self.certificate_),
        }

    def _from_file(self, arrays: dict[str, np.ndarray], about: About) -> None:
        linear = SurrogateClassifier(self.asked)
        linear.coef_, linear.intercept_ = arrays["coef"], arrays["intercept"]
        linear.classes_, linear.n_features_in_ = np.array([False, True]), linear.coef_.shape[1]
        if hasattr(self, "feature_names_in_"):
            linear.feature_names_in_ = self.feature_names_in_  # pyright: ignore[reportAttributeAccessIssue]
        self.keep(linear)
        self.positive_label_ = self.classes_[about["positive"]]
        self.threshold_ = float(arrays["threshold"][0])
        self.certificate_ = ThresholdCertificate.of_dict(about["certificate"])
        negative, positive = map(
            float, arrays.get("most", np.full(2, arrays["weight"].max()))
        )  # files of 0.1 have none
        self.held_out_ = HeldOut(
            arrays["scores"], arrays["positive"].astype(bool), arrays["weight"], {}, (negative, positive)
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        if self.estimator is not None:
            inner = get_tags(self.estimator).input_tags
            tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        return tags


def one_split(
    positive: np.ndarray, counted: np.ndarray, share: float, seed: int, stratified: bool, draw: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and, of those with weight, rows to judge by, at random.

    Labels are split alike where every limit is on a share of one label: its rows are then as good as drawn from it alone.
    For other metrics that would fix how frequent the labels are among the rows that judge, which is part of what is claimed.
    Rows with the same number of a draw are copies, and are on the same side.
    """
    random = np.random.default_rng([_STREAM, seed])
    judge = np.zeros(len(positive), bool)
    draw = np.arange(len(positive)) if draw is None else draw
    for part in (positive, ~positive) if stratified else (positive | ~positive,):
        drawn = random.permutation(np.unique(draw[part & counted]))
        judge[drawn[: min(round(share * len(drawn)), len(drawn) - 1)]] = True
    judge = judge[draw] & counted
    return np.flatnonzero(~judge), np.flatnonzero(judge)
