"""A matrix completion as a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from tightrope.files import Form
from tightrope.learn.model_file import read_model, write_model
from tightrope.learn.problems.observed import Observed

if TYPE_CHECKING:
    from tightrope.learn.completion.estimator import StructuredMatrixCompletion

FORM = Form("matrix completion", 1, "Fit and save the completion again.")
_NUMBERS = ("mean_", "nuclear_norm_", "unobserved_energy_", "dual_", "held_out_error_", "n_iter_")
_ARRAYS = ("singular_values", "row_effects", "column_effects")
_SEEN = ("seen_rows", "seen_columns", "seen_values")


def save_completion(model: "StructuredMatrixCompletion", path: Path, ratings: bool) -> None:
    """Write a completion, with the ratings where asked for."""
    arrays = dict(zip(("left", "right"), model.factors_, strict=True))
    arrays |= {name: getattr(model, f"{name}_") for name in _ARRAYS}
    if ratings and model._seen is not None:
        arrays |= dict(zip(_SEEN, model._seen[:3], strict=True))
    about: dict[str, Any] = {
        "numbers": {name: getattr(model, name) for name in _NUMBERS},
        "path": None if model.path_ is None else model.path_.to_dict("list"),
    }
    write_model(FORM, path, model, arrays, about)


def load_completion(kind: type["StructuredMatrixCompletion"], path: Path) -> "StructuredMatrixCompletion":
    """Read a completion that `save_completion` wrote, or say why that is not possible."""
    model, arrays, about = read_model(FORM, kind, path)
    model.factors_ = arrays["left"], arrays["right"]
    for name in _ARRAYS:
        setattr(model, f"{name}_", arrays[name])
    for name, value in about["numbers"].items():
        setattr(model, name, value)
    model.shape_ = len(model.row_effects_), len(model.column_effects_)
    model.path_ = None if about["path"] is None else pd.DataFrame(about["path"])
    rows, columns, values = (arrays.get(name) for name in _SEEN)
    model._seen = None if rows is None else Observed(rows, columns, values, model.shape_)  # pyright: ignore[reportArgumentType]
    return model
