"""Predictions for a table part by part, and what they come to."""

from typing import Any

import numpy as np
import pandas as pd

from tightrope.learn.tables.classifier import TableClassifier
from tightrope.learn.tables.constrained import ConstrainedTable
from tightrope.learn.tables.reading import Parts, left_out
from tightrope.names import in_csv

_PREDICTION = "the prediction of this row"


def predict_parts(
    model: TableClassifier | ConstrainedTable, parts: Parts, drop_missing: bool, out: Any
) -> tuple[int, pd.DataFrame | None, list[str]]:
    """Write predictions as CSV into `out`, rows numbered from 1.

    Returns:
        How many there are, what they come to on the rows to be measured (None where that is not known), and notes.
    """
    features = [column.name for column in model.encoder.columns]
    kept, predicted = [], 0
    for part in parts.frames:
        there = [name for name in features if name in part.columns]
        frame = part.dropna(subset=there) if drop_missing else part
        if frame.empty:
            continue
        predictions = model.predict(frame)
        written = predictions.assign(prediction=predictions["prediction"].map(in_csv))
        written.set_axis(pd.Index(frame.index + 1, name="row")).to_csv(out, header=not predicted)
        predicted += len(frame)
        if set(model.measured_by) <= set(frame.columns):
            judged = np.intersect1d(frame.index, parts.measured, assume_unique=True)
            columns = [name for name in frame.columns if name in (*model.measured_by, model.label)]
            kept.append(frame.loc[judged, columns].assign(**{_PREDICTION: predictions["prediction"]}))
    notes = left_out(parts.rows - predicted, parts.rows)
    if not kept:
        return predicted, None, notes
    found = pd.concat(kept)
    if len(found) < predicted:
        notes.append(f"measured on {len(found):,} of {predicted:,} rows, drawn at random.")
    try:
        return predicted, model.measure(found, found[_PREDICTION]), notes
    except ValueError as error:  # the predictions are right all the same
        return predicted, None, [*notes, f"{model.measures} are not measured. {error}"]
