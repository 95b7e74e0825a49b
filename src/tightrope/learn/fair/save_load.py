"""A fair classifier as a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tightrope.files import Form
from tightrope.learn.fairness.sensitive import Attribute
from tightrope.learn.model_file import read_model, write_model

if TYPE_CHECKING:
    from tightrope.learn.fair.classifier import FairLogisticRegression

FORM = Form("fair classifier", 1, "Fit and save the classifier again.")


def save_classifier(model: "FairLogisticRegression", path: Path) -> None:
    """Write what a classifier has learnt; the state of a stream is not saved."""
    arrays = {"coef": model.coef_, "intercept": model.intercept_, "dual": np.asarray(model.dual_, float)}
    about: dict[str, Any] = {
        "threshold": model.threshold_,
        "attributes": [[a.name, a.kind, a.groups, a.cells] for a in model.attributes_],
        "frontier": None if model.frontier_ is None else model.frontier_.to_dict("list"),
    }
    write_model(FORM, path, model, arrays, about)


def load_classifier(kind: type["FairLogisticRegression"], path: Path) -> "FairLogisticRegression":
    """Read a classifier that `save_classifier` wrote, or say why that is not possible."""
    model, arrays, about = read_model(FORM, kind, path)
    model.coef_, model.intercept_, model.dual_ = arrays["coef"], arrays["intercept"], arrays["dual"]
    model.n_features_in_ = model.coef_.shape[1]
    model.threshold_ = about["threshold"]
    model.attributes_ = tuple(
        Attribute(name, what, tuple(groups), tuple(tuple(map(tuple, group)) for group in cells))
        for name, what, groups, cells in about["attributes"]
    )
    model.frontier_ = None if about["frontier"] is None else pd.DataFrame(about["frontier"])
    return model
