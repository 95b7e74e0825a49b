"""What files of fitted models have in common: parameters, report, labels and names of features, beside arrays; no pickle."""

from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from tightrope.files import About, Arrays, FileError, Form

Estimator = TypeVar("Estimator", bound=BaseEstimator)


def write_model(form: Form, path: Path, model: BaseEstimator, arrays: Arrays, about: About) -> None:
    """Write a model's arrays and what there is to say about them."""
    classes, names = getattr(model, "classes_", None), getattr(model, "feature_names_in_", None)
    common = {
        "parameters": _parameters(model),
        "report": str(getattr(model, "result_", getattr(model, "report_", ""))),
        "classes": None if classes is None else {"dtype": classes.dtype.str, "values": classes.tolist()},
        "feature_names": None if names is None else list(map(str, names)),
    }
    try:
        form.write(path, arrays, common | about)
    except TypeError as error:  # of JSON
        expected = "expected labels and groups of text or plain numbers"
        raise FileError(f"{path} was not written: {error}; {expected}.") from error


def read_model(form: Form, kind: type[Estimator], path: Path) -> tuple[Estimator, dict[str, np.ndarray], About]:
    """A model with its parameters, labels and names of features, its arrays, and what is said about them."""
    arrays, about = form.read(path)
    model: Any = kind(**about["parameters"])
    if about.get("classes") is not None:
        model.classes_ = np.array(about["classes"]["values"], dtype=about["classes"]["dtype"])
    if about.get("feature_names") is not None:
        model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    model.report_ = about["report"]
    return model, arrays, about


def _parameters(model: BaseEstimator) -> dict[str, Any]:
    """The constructor's arguments as JSON holds them; a method object is left out, and then "auto"."""
    given = model.get_params(deep=False)
    if not isinstance(given.get("method", "auto"), str):
        given["method"] = "auto"
    return {name: _plain(value) for name, value in given.items()}


def _plain(value: Any) -> Any:
    """The value with Python's numbers and lists in the place of NumPy's numbers and arrays."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return np.asarray(value).tolist() if hasattr(value, "__array__") else value
