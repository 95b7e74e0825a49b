"""A constrained classifier as a file: its linear score, threshold and certificate, and what its picture is drawn from."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.files import FileError, Form
from tightrope.learn.constrained.certificate import MeasuredMetric, ThresholdCertificate
from tightrope.learn.constrained.held_out import HeldOut
from tightrope.learn.constrained.linear import SurrogateClassifier
from tightrope.learn.model_file import read_model, write_model

if TYPE_CHECKING:
    from tightrope.learn.constrained.classifier import ConstrainedClassifier

FORM = Form("constrained classifier", 1, "Fit and save the classifier again.")


def save_classifier(model: "ConstrainedClassifier", path: Path) -> None:
    """Write what a classifier with a linear score of its own has learnt."""
    linear = model.estimator_
    if not isinstance(linear, SurrogateClassifier):
        raise FileError(
            f"{path} was not written: the classifier wraps {type(linear).__name__}, and only estimator=None can be saved "
            "without pickle. Use joblib or skops for others."
        )
    if not isinstance(model.cv, int | float | str):
        raise FileError(
            f"{path} was not written: cv holds splits of rows, which are not kept; expected a share or a number."
        )
    rows = model.held_out_
    arrays = {
        "coef": linear.coef_, "intercept": linear.intercept_, "threshold": np.array([model.threshold_]),
        "scores": rows.score, "positive": rows.positive.astype(np.uint8), "weight": rows.weight,
        "most": np.array(rows.most),
    }  # fmt: skip
    about: dict[str, Any] = {
        "positive": model.classes_.tolist().index(model.positive_label_),
        "certificate": dataclasses.asdict(model.certificate_),
        "report": str(model.certificate_),
    }
    write_model(FORM, path, model, arrays, about)


def load_classifier(kind: type["ConstrainedClassifier"], path: Path) -> "ConstrainedClassifier":
    """Read a classifier that `save_classifier` wrote, or say why that is not possible."""
    model, arrays, about = read_model(FORM, kind, path)
    linear = SurrogateClassifier(model.asked)
    linear.coef_, linear.intercept_ = arrays["coef"], arrays["intercept"]
    linear.classes_, linear.n_features_in_ = np.array([False, True]), linear.coef_.shape[1]
    if hasattr(model, "feature_names_in_"):
        linear.feature_names_in_ = model.feature_names_in_  # pyright: ignore[reportAttributeAccessIssue]
    model.keep(linear)
    model.positive_label_ = model.classes_[about["positive"]]
    model.threshold_ = float(arrays["threshold"][0])
    model.certificate_ = _certificate(about["certificate"])
    negative, positive = map(float, arrays.get("most", np.full(2, arrays["weight"].max())))  # files of 0.1 have none
    model.held_out_ = HeldOut(
        arrays["scores"], arrays["positive"].astype(bool), arrays["weight"], {}, (negative, positive)
    )
    return model


def _certificate(about: dict[str, Any]) -> ThresholdCertificate:
    constraints = tuple(MeasuredMetric(**one) for one in about["constraints"])
    words: dict[str, Any] = {name: tuple(about[name]) for name in ("limits", "missing", "notes")}
    return ThresholdCertificate(
        **(about | words | {"constraints": constraints, "objective": MeasuredMetric(**about["objective"])})
    )
