"""Fitted models as files: arrays in safetensors, everything else as JSON with a hash over both; no pickle."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from tightrope.fairness.sensitive import Attribute
from tightrope.files import FileError, read_file, write_file

if TYPE_CHECKING:
    from tightrope.estimators.fair.classifier import FairLogisticRegression

_KIND = "fair classifier"
_FORMAT = f"tightrope {_KIND} 1"
_REMEDY = "Fit and save the classifier again."


def save_classifier(model: "FairLogisticRegression", path: Path) -> None:
    """Write it, atomically; a stream is not saved, only what it has learnt."""
    check_parent(path)
    arrays = {"coef": model.coef_, "intercept": model.intercept_, "dual": np.asarray(model.dual_, float)}
    about: dict[str, Any] = {
        "format": _FORMAT,
        "parameters": _parameters(model),
        "classes": {"dtype": model.classes_.dtype.str, "values": model.classes_.tolist()},
        "feature_names": list(map(str, getattr(model, "feature_names_in_", []))) or None,
        "threshold": model.threshold_,
        "attributes": [[a.name, a.kind, list(a.groups)] for a in model.attributes_],
        "frontier": None if model.frontier_ is None else model.frontier_.to_dict("list"),
        "report": str(getattr(model, "result_", "")),
    }
    try:
        write_model(path, arrays, about)
    except TypeError as error:
        raise FileError(
            f"{path} was not written: {error}; expected labels and groups of text or plain numbers."
        ) from error


def load_classifier(kind: type["FairLogisticRegression"], path: Path) -> "FairLogisticRegression":
    """Read it back, or say why not."""
    arrays, about = read_model(path, _KIND, _FORMAT, _REMEDY)
    model = kind(**about["parameters"])
    model.coef_, model.intercept_, model.dual_ = arrays["coef"], arrays["intercept"], arrays["dual"]
    model.classes_ = np.array(about["classes"]["values"], dtype=about["classes"]["dtype"])
    model.n_features_in_ = model.coef_.shape[1]
    if about["feature_names"] is not None:
        model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    model.threshold_ = about["threshold"]
    model.attributes_ = tuple(Attribute(name, what, tuple(groups)) for name, what, groups in about["attributes"])
    model.frontier_ = None if about["frontier"] is None else pd.DataFrame(about["frontier"])
    model.report_ = about["report"]  # pyright: ignore[reportAttributeAccessIssue]
    return model


def _parameters(model: "FairLogisticRegression") -> dict[str, Any]:
    given = plain_parameters(model)
    given["scaling"] = None if given["scaling"] is None else [np.asarray(v).tolist() for v in given["scaling"]]
    return given


# ---- for every kind of model -------------------------------------------------------------------------------------------


def plain_parameters(model: BaseEstimator) -> dict[str, Any]:
    """The constructor's arguments as JSON holds them; a method object is left out, and then "auto"."""
    given = model.get_params(deep=False)
    if not isinstance(given["method"], str):
        given["method"] = "auto"
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}


def check_parent(path: Path) -> None:
    """Before any work: is there a folder to write into?"""
    if not path.parent.is_dir():
        raise FileError(f"{path} cannot be written: there is no folder {path.parent}. Make it first.")


def write_model(path: Path, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    """Write arrays and JSON, atomically, with a hash over both."""
    write_file(path, arrays, about | {"sha256": _hash(arrays, about)})


def read_model(path: Path, kind: str, form: str, remedy: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read them back; a file of another kind or version, or one that was changed, is refused with a remedy."""
    try:
        arrays, about = read_file(path, kind)
    except FileError as error:
        raise FileError(f"{error} {remedy}") from error
    if about["format"] != form:
        raise FileError(f"{path} was written by another version of tightrope. {remedy}")
    if about.pop("sha256", None) != _hash(arrays, about):
        raise FileError(f"{path} was changed or damaged after it was written: its hash does not match. {remedy}")
    return arrays, about


def _hash(arrays: dict[str, np.ndarray], about: dict[str, Any]) -> str:
    sha = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        sha.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()
