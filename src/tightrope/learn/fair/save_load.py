"""A fair classifier as a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tightrope.files import FileError
from tightrope.learn.fairness.sensitive import Attribute
from tightrope.learn.model_file import ModelFile

if TYPE_CHECKING:
    from tightrope.learn.fair.classifier import FairLogisticRegression

FILE = ModelFile("fair classifier", "Fit and save the classifier again.")


def save_classifier(model: "FairLogisticRegression", path: Path) -> None:
    """Write what a classifier has learnt; the state of a stream is not saved."""
    arrays = {"coef": model.coef_, "intercept": model.intercept_, "dual": np.asarray(model.dual_, float)}
    about: dict[str, Any] = {
        "classes": {"dtype": model.classes_.dtype.str, "values": model.classes_.tolist()},
        "feature_names": list(map(str, getattr(model, "feature_names_in_", []))) or None,
        "threshold": model.threshold_,
        "attributes": [[a.name, a.kind, a.groups, a.cells] for a in model.attributes_],
        "frontier": None if model.frontier_ is None else model.frontier_.to_dict("list"),
    }
    try:
        FILE.write(path, model, arrays, about)
    except TypeError as error:
        raise FileError(
            f"{path} was not written: {error}; expected labels and groups of text or plain numbers."
        ) from error


def load_classifier(kind: type["FairLogisticRegression"], path: Path) -> "FairLogisticRegression":
    """Read a classifier that `save_classifier` wrote, or say why that is not possible."""
    arrays, about = FILE.read(path)
    model = kind(**about["parameters"])
    model.coef_, model.intercept_, model.dual_ = arrays["coef"], arrays["intercept"], arrays["dual"]
    model.classes_ = np.array(about["classes"]["values"], dtype=about["classes"]["dtype"])
    model.n_features_in_ = model.coef_.shape[1]
    if about["feature_names"] is not None:
        model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    model.threshold_ = about["threshold"]
    model.attributes_ = tuple(
        Attribute(name, what, tuple(groups), tuple(tuple(map(tuple, group)) for group in cells))
        for name, what, groups, cells in about["attributes"]
    )
    model.frontier_ = None if about["frontier"] is None else pd.DataFrame(about["frontier"])
    model.report_ = about["report"]  # pyright: ignore[reportAttributeAccessIssue]
    return model
