"""What a fair classifier is to learn from: what `fit` or `partial_fit` was given, read and checked."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, validate_data

from tightrope.fairness.sensitive import Attribute, Sensitive, read_sensitive

if TYPE_CHECKING:
    from tightrope.estimators.fair.classifier import FairLogisticRegression


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

    @property
    def columns(self) -> np.ndarray:
        """(n, K), the sensitive columns; K is 0 without a constraint."""
        return np.zeros((len(self.y), 0)) if self.sensitive is None else self.sensitive.columns

    def take(self, rows: np.ndarray) -> "Task":
        """The same task with some of the rows."""
        sensitive = None if self.sensitive is None else self.sensitive.take(rows)
        return self._replace(X=self.X[rows], y=self.y[rows], sensitive=sensitive, weight=self.weight[rows])


def read_task(
    model: "FairLogisticRegression", X: Any, y: Any, sensitive_features: Any, sample_weight: Any, classes: Any = None,
    known: tuple[Attribute, ...] | None = None,
) -> Task:  # fmt: skip
    """What `fit` or `partial_fit` was given, everything checked, as a task.

    From the first data the model learns `classes_`, `n_features_in_` and `feature_names_in_`, which all later data has to
    agree with. For later data, `known` are the attributes that the first had.
    """
    first = known is None
    sensitive = _read_attributes(model, X, sensitive_features, known)
    checked: Any = validate_data(model, features_of(model, X), y, reset=first, dtype=np.float64)
    features, y = checked
    weight = _check_sample_weight(sample_weight, features, dtype=np.float64, ensure_non_negative=True)
    positive = _is_positive(model, y, classes, first)
    if model.class_weight is not None:
        weight = weight * compute_sample_weight(model.class_weight, y)
    if sensitive is not None and len(sensitive) != len(features):
        raise ValueError(
            f"sensitive_features has {len(sensitive):,} rows and X has {len(features):,}; expected as many."
        )
    if first and classes is None and len(np.unique(positive[weight > 0])) < 2:
        raise ValueError("y has only one class among the rows with weight; expected two.")
    y = np.where(positive, 1.0, -1.0)
    return Task(features, y, sensitive, weight, model.notion, float(model.l2), float(model.radius), model.fit_intercept)


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


def _read_attributes(
    model: "FairLogisticRegression", X: Any, given: Any, known: tuple[Attribute, ...] | None
) -> Sensitive | None:
    """The sensitive attributes, from columns of X or from `sensitive_features`; None without a constraint."""
    if model.p_rule is None and model.covariance is None and model.difference is None:
        return None
    named = _sensitive_names(model)
    if given is None and not named:
        asked = {name: getattr(model, name) for name in ("p_rule", "covariance", "difference")}
        what = next(f"{name}={value!r}" for name, value in asked.items() if value is not None)
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
    sensitive = read_sensitive(given, attributes=known or None)
    continuous = [attribute.name for attribute in sensitive.attributes if attribute.kind == "continuous"]
    if model.covariance is None and continuous:
        raise ValueError(
            f"The p%-rule compares groups and {', '.join(continuous)} is continuous. Use covariance=..., or cut it into "
            "ranges first, e.g. with pandas.cut."
        )
    return sensitive


def _is_positive(model: "FairLogisticRegression", y: np.ndarray, classes: Any, first: bool) -> np.ndarray:
    """Which rows have the second label; the model learns both labels from the first data."""
    check_classification_targets(y)
    if first:
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        labels = np.unique(y) if classes is None else np.unique(classes)
        if len(labels) > 2:
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        if len(labels) < 2:
            raise ValueError(f"y has only one class, {labels[0]!r}; expected two.")
        model.classes_ = labels
    strange = set(np.unique(y).tolist()) - set(model.classes_.tolist())
    if strange:
        raise ValueError(f"y has the label {min(strange)!r}; expected one of {model.classes_.tolist()}.")
    return np.asarray(y) == model.classes_[1]
