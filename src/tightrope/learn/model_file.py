"""Fitted models as files: parameters, report, labels and names of features, beside what each model has learnt; no pickle."""

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from tightrope.files import About, Arrays, FileError, Form, as_path


class SavedModel(BaseEstimator):
    """An estimator that can be written to a file: one that says what it has learnt, and knows itself again by that."""

    _form: ClassVar[Form]

    def _to_file(self, path: Path) -> tuple[Arrays, About]:
        """What was learnt: arrays, and what else JSON holds; the path is for refusals."""
        raise NotImplementedError

    def _from_file(self, arrays: dict[str, np.ndarray], about: About) -> None:
        """Have learnt what `_to_file` said; parameters, labels and names of features are there."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write the model to one file: arrays in safetensors, the rest as JSON; no pickle."""
        path = as_path(path)
        self._write(path, *self._to_file(path))

    def _write(self, path: Path, arrays: Arrays, about: About) -> None:
        classes, names = getattr(self, "classes_", None), getattr(self, "feature_names_in_", None)
        common = {
            "parameters": _parameters(self),
            "report": str(getattr(self, "result_", getattr(self, "report_", ""))),
            "classes": None if classes is None else {"dtype": classes.dtype.str, "values": classes.tolist()},
            "feature_names": None if names is None else list(map(str, names)),
        }
        try:
            self._form.write(path, arrays, common | about)
        except TypeError as error:  # of JSON
            expected = "expected labels and groups of text or plain numbers"
            raise FileError(f"{path} was not written: {error}; {expected}.") from error

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that `save` wrote; a file that is damaged, changed or something else is refused."""
        arrays, about = cls._form.read(as_path(path))
        model: Any = cls(**about["parameters"])
        if about.get("classes") is not None:
            model.classes_ = np.array(about["classes"]["values"], dtype=about["classes"]["dtype"])
        if about.get("feature_names") is not None:
            model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
        model.report_ = about["report"]
        model._from_file(arrays, about)
        return model


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
