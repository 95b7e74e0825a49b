"""What a fair classifier is to learn from: what `fit` or `partial_fit` was given, read and checked."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, validate_data

from tightrope._limits import KEPT, beyond_memory
from tightrope.given import unmasked
from tightrope.learn.drawn import FILES, drawn
from tightrope.learn.fair.rare import intersected, judgeable
from tightrope.learn.fairness.intersections import grouped_attributes, intersection_name
from tightrope.learn.fairness.notions import NOTIONS, owners
from tightrope.learn.fairness.sensitive import Attribute, Sensitive, numbers_like_codes, read_sensitive
from tightrope.learn.sentences import in_a_sentence

if TYPE_CHECKING:
    from tightrope.learn.fair.classifier import FairLogisticRegression

FEATURES = "a number in every cell; text and dates have to be encoded first, e.g. with pandas.get_dummies"
LABELS = "labels of two kinds, text, numbers or booleans, one for each row"
"""What features and labels have to be, in refusals."""


class Task(NamedTuple):
    """What is to be trained: rows, weights, attributes (None: no constraint), and how the model is bounded."""

    X: np.ndarray
    y: np.ndarray  # -1 and +1
    sensitive: Sensitive | None
    weight: np.ndarray
    notion: str
    l2: float
    radius: float
    intercept: bool
    people: np.ndarray | None = None  # what rows weigh where rates are judged: `weight` without that of classes

    @property
    def judged(self) -> np.ndarray:
        """(n,), the weights by which rates and accuracy are judged. A class weighs more in training only."""
        return self.weight if self.people is None else self.people

    @property
    def columns(self) -> np.ndarray:
        """(n, K), the sensitive columns; K is 0 without a constraint."""
        return np.zeros((len(self.y), 0)) if self.sensitive is None else self.sensitive.columns

    def take(self, rows: np.ndarray) -> "Task":
        """The same task with some of the rows."""
        sensitive = None if self.sensitive is None else self.sensitive.take(rows)
        people = None if self.people is None else self.people[rows]
        return self._replace(
            X=self.X[rows], y=self.y[rows], sensitive=sensitive, weight=self.weight[rows], people=people
        )

    def with_weight(self) -> "Task":
        """The rows that have weight: the others change nothing, not even how the folds are drawn."""
        return self if np.all(self.weight > 0) else self.take(np.flatnonzero(self.weight > 0))


def at_hand(X: Any, y: Any, sensitive_features: Any, sample_weight: Any, seed: int) -> tuple[Any, Any, Any, str]:
    """Features, labels and weights in memory, of files those of the rows drawn; and a sentence on which rows these are."""
    if not isinstance(X, FILES):
        return X, y, sample_weight, ""
    if sensitive_features is not None:
        raise TypeError(
            "sensitive_features was given with files; expected names of sensitive columns as sensitive=[...]."
        )
    for what, given in (("y", y), ("sample_weight", sample_weight)):
        if not isinstance(given, str) and (what == "y" or given is not None):
            raise TypeError(f"{what} is a {type(given).__name__} and X are files; expected the name of a column.")
    found = drawn(X, seed)
    frame = found.frame
    own = [y] if sample_weight is None else [y, sample_weight]
    absent = [name for name in own if name not in frame]
    if absent:
        raise ValueError(
            f"The files have no column {absent[0]!r}; they have {', '.join(map(repr, frame.columns[:20]))}."
        )
    weight = None if sample_weight is None else frame[sample_weight]
    return frame.drop(columns=own), frame[y], weight, found.sentence


def read_task(
    model: "FairLogisticRegression", X: Any, y: Any, sensitive_features: Any, sample_weight: Any, classes: Any = None,
    known: tuple[Attribute, ...] | None = None,
) -> Task:  # fmt: skip
    """What `fit` or `partial_fit` was given, everything checked, as a task.

    From the first data the model learns `classes_`, `n_features_in_` and `feature_names_in_`, which all later data has to
    agree with. For later data, `known` are the attributes that the first had.
    """
    first = known is None
    X, y, sample_weight = unmasked("X", X), read_labels(y), unmasked("sample_weight", sample_weight)
    sensitive = _read_attributes(model, X, sensitive_features, known)
    with in_a_sentence("X", FEATURES):
        own = features_of(model, X)
        checked: Any = validate_data(model, own, y, reset=first, dtype=np.float64, accept_sparse="csr")
    features, y = as_dense(checked[0]), checked[1]
    with in_a_sentence("sample_weight", "a number for each row"):
        people = _check_sample_weight(sample_weight, features, dtype=np.float64, ensure_non_negative=True)
    with in_a_sentence("y", LABELS):
        positive = _is_positive(model, y, classes, first)
    weight = people
    if model.class_weight is not None:
        weight = weight * compute_sample_weight(model.class_weight, y)
    if sensitive is not None and len(sensitive) != len(features):
        raise ValueError(
            f"sensitive_features has {len(sensitive):,} rows and X has {len(features):,}; expected as many."
        )
    if first and classes is None and len(np.unique(positive[weight > 0])) < 2:
        raise ValueError("y has only one class among the rows with weight; expected two.")
    if first and sensitive is not None:
        _refuse_weightless(sensitive, weight)
        counted, rate = weight > 0, float(np.average(positive, weights=people))
        if NOTIONS[model.notion] != (None,):  # groups are compared among rows of one label: the rarer label decides
            counted, rate = min((counted & owners(label, positive) for label in NOTIONS[model.notion]), key=np.sum), 0.5
        if model.merge_rare and model.covariance is None:  # a covariance is held on the rows at hand, and not judged
            sensitive = judgeable(sensitive, counted, rate)
        if _crosses(model, sensitive):
            sensitive = intersected(sensitive, counted, rate, model.merge_rare)
    y, bounds = np.where(positive, 1.0, -1.0), (float(model.l2), float(model.radius), model.fit_intercept)
    return Task(features, y, sensitive, weight, model.notion, *bounds, people)


def read_labels(y: Any) -> Any:
    """Labels as they were given; refuses masked and missing ones."""
    y = unmasked("y", y)
    with in_a_sentence("y", LABELS):
        values = np.asarray(y, object)
        missing = int(np.sum(pd.isna(values.ravel()))) if values.ndim else 0
    if missing:
        raise ValueError(f"y has {missing:,} missing values (Input y contains NaN); expected a label in every row.")
    return y


def as_dense(X: Any) -> np.ndarray:
    """X as an array; a sparse matrix that would be too large is refused."""
    if not issparse(X):
        return X
    if beyond_memory(KEPT * 8 * np.prod(X.shape, dtype=float)):  # as given, standardised, and filled up
        raise ValueError(
            f"X is sparse with {X.shape[0]:,} rows and {X.shape[1]:,} columns; expected what this machine has the memory "
            "for, zeros included, because features are centred and then take 8 bytes each. Keep fewer columns, e.g. with "
            "min_frequency of OneHotEncoder, or TruncatedSVD."
        )
    return X.toarray()


def _refuse_weightless(sensitive: Sensitive, weight: np.ndarray) -> None:
    """Refuse groups that have rows and no weight: nothing can be learnt or said of them."""
    for i in grouped_attributes(sensitive):
        groups, codes = sensitive.attributes[i].groups, sensitive.groups(i)
        total = np.bincount(codes, weights=weight, minlength=len(groups))
        absent = [repr(groups[c]) for c in np.unique(codes) if not total[c] > 0]
        if absent:
            raise ValueError(
                f"All rows of {sensitive.attributes[i].name} = {', '.join(absent)} have sample_weight 0, so that nothing "
                "can be said of this group; expected some weight in every group. Leave its rows out, or give them weight."
            )


def _crosses(model: "FairLogisticRegression", sensitive: Sensitive) -> bool:
    """Whether the intersection is to be constrained; thresholds by name constrain what they name."""
    if not model.intersections:
        return False
    name = intersection_name([sensitive.attributes[i].name for i in grouped_attributes(sensitive)])
    return not isinstance(model.covariance, Mapping) or name in model.covariance


def features_of(model: "FairLogisticRegression", X: Any) -> Any:
    """X without sensitive columns, where it has any; they need not be there when predicting."""
    named = [] if model.sensitive_as_features else _sensitive_names(model)
    there = [name for name in named if name in getattr(X, "columns", ())]
    return X[[name for name in X.columns if name not in there]] if there else X


def _sensitive_names(model: "FairLogisticRegression") -> list[Any]:
    """The columns of X that are sensitive."""
    if model.sensitive is None:
        return []
    return [model.sensitive] if isinstance(model.sensitive, str) else list(model.sensitive)


def sensitive_columns(model: "FairLogisticRegression", X: Any, given: Any) -> Any:
    """What was given as sensitive, or else the columns of X that `sensitive` names; None where there is neither."""
    named = _sensitive_names(model)
    if given is not None and named:
        raise ValueError("sensitive= and sensitive_features= were both given; expected one of them.")
    if given is not None or not named:
        return given
    absent = [name for name in named if name not in getattr(X, "columns", ())]
    if absent:
        raise ValueError(f"sensitive names {', '.join(map(str, absent))}, which X has no column of.")
    return X[named]


def _read_attributes(
    model: "FairLogisticRegression", X: Any, given: Any, known: tuple[Attribute, ...] | None
) -> Sensitive | None:
    """The sensitive attributes, from columns of X or from `sensitive_features`; None without a constraint."""
    if model.p_rule is None and model.covariance is None and model.difference is None:
        return None
    given = sensitive_columns(model, X, given)
    if given is None:
        asked = {name: getattr(model, name) for name in ("p_rule", "difference", "covariance")}
        what = next(f"{name}={value!r}" for name, value in asked.items() if value is not None)
        raise ValueError(
            f"FairLogisticRegression({what}) needs sensitive_features: fit(X, y, sensitive_features=...), or the names "
            "of columns of a DataFrame as sensitive=[...]."
        )
    sensitive = read_sensitive(given, attributes=known or None, kind=model.sensitive_kind)
    continuous = [attribute.name for attribute in sensitive.attributes if attribute.kind == "continuous"]
    codes = numbers_like_codes(sensitive) if known is None else []
    if model.covariance is None and continuous:
        how = (
            f"If its numbers are codes of groups, say sensitive_kind={{{codes[0]!r}: 'categorical'}} (--sensitive-kind "
            f"{codes[0]}=categorical)."
            if codes
            else "Use covariance=..., or cut it into ranges first, e.g. with pandas.cut."
        )
        raise ValueError(f"The p%-rule compares groups and {', '.join(continuous)} is continuous. {how}")
    said = (
        model.sensitive_kind
        if isinstance(model.sensitive_kind, Mapping)
        else dict.fromkeys(codes, model.sensitive_kind)
    )
    unsaid = [name for name in codes if said.get(name) is None]
    if unsaid:
        warnings.warn(
            f"{', '.join(unsaid)} has few values, all whole numbers, and is taken for a quantity: its covariance with the "
            f"score is held down, whatever the groups get. If they are codes of groups, say sensitive_kind={{{unsaid[0]!r}: "
            f"'categorical'}} (--sensitive-kind {unsaid[0]}=categorical); if not, 'continuous'.",
            stacklevel=4,
        )
    return sensitive


def _is_positive(model: "FairLogisticRegression", y: np.ndarray, classes: Any, first: bool) -> np.ndarray:
    """Which rows have the second label; the model learns both labels from the first data."""
    check_classification_targets(y)
    if first:
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        labels = np.unique(y) if classes is None else np.unique(classes)
        if len(labels) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}. A rule on rates is about one "
                "decision, and the largest of several scores keeps no rule that its parts keep. Fit one classifier for each "
                "decision that matters, with y == label."
            )
        if len(labels) < 2:
            raise ValueError(f"y has only one class, {labels[0]!r}; expected two.")
        model.classes_ = labels
    return has_second_label(model, y)


def has_second_label(model: "FairLogisticRegression", y: Any) -> np.ndarray:
    """Which rows have the second label; refuses labels that the model does not know."""
    y = np.asarray(y)
    with in_a_sentence("y", LABELS):
        strange = set(np.unique(y).tolist()) - set(model.classes_.tolist())
    if strange:
        raise ValueError(f"y has the label {min(strange)!r}; expected one of {model.classes_.tolist()}.")
    return y == model.classes_[1]
