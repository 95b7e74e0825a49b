"""A completion as a file: arrays in safetensors, everything else as JSON with a hash over both; no pickle."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from tightrope.estimators.fair.model_file import check_parent, plain_parameters, read_model, write_model
from tightrope.problems.observed import Observed

if TYPE_CHECKING:
    from tightrope.estimators.completion.estimator import StructuredMatrixCompletion

_KIND = "matrix completion"
_FORMAT = f"tightrope {_KIND} 1"
_REMEDY = "Fit and save the completion again."
_SEEN = ("seen_rows", "seen_columns", "seen_values")


def save_completion(model: "StructuredMatrixCompletion", path: Path, ratings: bool) -> None:
    """Write it, atomically, with the ratings where asked for."""
    check_parent(path)
    left, right = model.factors_
    arrays = {
        "left": left,
        "right": right,
        "singular_values": model.singular_values_,
        "row_effects": model.row_effects_,
        "column_effects": model.column_effects_,
    }
    if ratings and model._seen is not None:
        arrays |= dict(zip(_SEEN, model._seen[:3], strict=True))
    about: dict[str, Any] = {
        "format": _FORMAT,
        "parameters": plain_parameters(model),
        "numbers": {
            "mean_": model.mean_,
            "nuclear_norm_": model.nuclear_norm_,
            "unobserved_energy_": model.unobserved_energy_,
            "dual_": model.dual_,
            "held_out_error_": model.held_out_error_,
            "n_iter_": model.n_iter_,
        },
        "path": None if model.path_ is None else model.path_.to_dict("list"),
        "report": str(getattr(model, "result_", getattr(model, "report_", ""))),
    }
    write_model(path, arrays, about)


def load_completion(kind: type["StructuredMatrixCompletion"], path: Path) -> "StructuredMatrixCompletion":
    """Read it back, or say why not."""
    arrays, about = read_model(path, _KIND, _FORMAT, _REMEDY)
    model = kind(**about["parameters"])
    model.factors_ = arrays["left"], arrays["right"]
    model.singular_values_ = arrays["singular_values"]
    model.row_effects_, model.column_effects_ = arrays["row_effects"], arrays["column_effects"]
    model.shape_ = len(model.row_effects_), len(model.column_effects_)
    for name, value in about["numbers"].items():
        setattr(model, name, value)
    model.path_ = None if about["path"] is None else pd.DataFrame(about["path"])
    model.report_ = about["report"]  # pyright: ignore[reportAttributeAccessIssue]
    rows, columns, values = (arrays.get(name) for name in _SEEN)
    model._seen = None if rows is None else Observed(rows, columns, values, model.shape_)  # pyright: ignore[reportArgumentType]
    return model
