"""Fitted models as files: arrays in safetensors, everything else as JSON with a hash over both; no pickle."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from tightrope.files import FileError, read_file, write_file

Arrays = dict[str, np.ndarray]


class ModelFile(NamedTuple):
    """One kind of file: what it holds, such as "fair classifier", and what to do about a file that cannot be read."""

    kind: str
    remedy: str

    @property
    def format(self) -> str:
        """Kind and version, by which a file says what it is."""
        return f"tightrope {self.kind} 1"

    def write(self, path: Path, model: BaseEstimator, arrays: Arrays, about: dict[str, Any]) -> None:
        """Write a model's arrays, what there is to say about them, its parameters and its report, atomically."""
        if not path.parent.is_dir():
            raise FileError(f"{path} cannot be written: there is no folder {path.parent}. Make it first.")
        report = str(getattr(model, "result_", getattr(model, "report_", "")))
        about = {"format": self.format, "parameters": _parameters(model), "report": report} | about
        write_file(path, arrays, about)

    def read(self, path: Path) -> tuple[Arrays, dict[str, Any]]:
        """Arrays and what is said about them; a file of another kind or version, or a changed one, is refused."""
        try:
            return read_file(path, self.format)
        except FileError as error:
            raise FileError(f"{error} {self.remedy}") from error


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
