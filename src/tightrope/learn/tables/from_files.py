"""A fair classifier from a folder of Parquet files that need not fit into memory: what `fit_table` does, in passes.

Rows are held out by their numbers, at random; they stay among the others and weigh nothing in training. Predictions are
made part by part, and what is measured is measured on a sample of rows.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tightrope.learn.fair.classifier import FairLogisticRegression
from tightrope.learn.fair.from_files import MOST_JUDGING, People, at_random, refuse_what_needs_rows
from tightrope.learn.fairness.sensitive import read_sensitive
from tightrope.learn.tables.classifier import (
    Fitted,
    TableClassifier,
    check_share,
    compared,
    two_labels,
    unconstrained,
    used_columns,
)
from tightrope.learn.tables.encoder import TableEncoder
from tightrope.sampling.parquet_files import Files, Flaw, decoded

AT_ONCE = 65_536
"""Rows in a part."""

MOST_MEASURED = MOST_JUDGING
"""Rows that are measured on at most."""


def fit_folder(
    folder: str | Path,
    label: str,
    sensitive: Sequence[str],
    *,
    positive: Any = None,
    drop: Sequence[str] = (),
    sensitive_as_features: bool = False,
    text: str = "indicators",
    test_share: float = 0.3,
    seed: int = 0,
    **parameters: Any,
) -> Fitted:
    """`fit_table` for Parquet files: arguments as there, `covariance` or `p_rule` the constraint, and nothing missing.

    Of the rows a share is held out, and 200,000 at most; others, drawn likewise from the rest, judge a `p_rule`.
    """
    check_share(test_share)
    fair = FairLogisticRegression(**parameters, random_state=seed)
    refuse_what_needs_rows(fair)
    fair.sensitive, fair.sensitive_as_features = list(sensitive), sensitive_as_features
    files = Files(folder)
    share = min(test_share, MOST_MEASURED / files.n)
    features, _ = used_columns(first_rows(files), label, sensitive, drop, sensitive_as_features)

    def trained_on(numbers: np.ndarray) -> np.ndarray:
        return at_random(numbers, seed) >= share

    encoder = TableEncoder(text=text).fit_parts(
        (frame, trained_on(np.arange(first, first + len(frame)))) for first, frame in parts_of(files, features)
    )
    labels = two_labels(pd.Series(_values(files, label)), label, positive)
    people = People(
        files, features, label, list(sensitive),
        lambda batch: encoder.transform(_frame(batch.select(features))).to_numpy(), encoder.names, trained_on, labels,
    )  # fmt: skip
    fair.fit_people(people)
    plain = unconstrained(parameters, seed).fit_people(people._replace(sensitive=[]))
    for classifier in (fair, plain):  # as classifiers of tables are: their labels are 0 and 1
        classifier.classes_, classifier.sensitive = np.array([0, 1]), None
    model = TableClassifier(encoder, fair, label, labels, tuple(sensitive))
    held_out = pd.concat(
        [frame[~trained_on(np.arange(first, first + len(frame)))] for first, frame in parts_of(files, people.columns)]
    )
    Z, truth = encoder.transform(held_out), (held_out[label] == labels[1]).to_numpy()
    read = read_sensitive(held_out[list(sensitive)], "The sensitive columns", attributes=fair.attributes_)
    comparison = compared(fair, plain, Z, read, truth)
    return Fitted(model, plain, comparison, range(files.n - len(held_out)), range(len(held_out)))


def predict_folder(model: Any, folder: str | Path, out: Any) -> tuple[int, pd.DataFrame | None, list[str]]:
    """Predict the rows of Parquet files part by part, as CSV into `out`, numbered from 1.

    Returns:
        How many rows there are, what the predictions come to on a sample of them (None where that is not known), and notes.
    """
    files = Files(folder)
    needed = [column.name for column in model.encoder.columns]
    wanted = [*model.measured_by, *([model.label] if model.label in files.columns else [])]
    measurable = set(model.measured_by) <= set(files.columns)
    share, kept, rows = MOST_MEASURED / files.n, [], 0
    there = [name for name in needed if name in files.columns]
    columns: list[str] = list(dict.fromkeys([*there, *(wanted if measurable else [])]))
    for first, frame in parts_of(files, columns, needed):
        frame.index = pd.RangeIndex(first + 1, first + len(frame) + 1, name="row")
        predictions = model.predict(frame)
        predictions.to_csv(out, header=first == 0)
        rows += len(frame)
        if measurable:
            sampled = at_random(np.arange(first, first + len(frame)), 0) < share
            kept.append(frame.loc[sampled, wanted].assign(**{_PREDICTION: predictions["prediction"][sampled]}))
    if not measurable:
        return rows, None, []
    sample = pd.concat(kept)
    notes = [] if len(sample) == rows else [f"measured on {len(sample):,} of {rows:,} rows, drawn at random."]
    try:
        return rows, model.measure(sample, sample[_PREDICTION]), notes
    except ValueError as error:  # the predictions are right all the same
        return rows, None, [f"{model.measures} are not measured. {error}"]


_PREDICTION = "the prediction of this row"


def parts_of(
    files: Files, columns: Sequence[str], needed: Sequence[str] | None = None
) -> Iterator[tuple[int, pd.DataFrame]]:
    """Parts of the table and the numbers of their first rows; refuses missing values in needed columns, with their row."""
    needed = columns if needed is None else needed

    def part(batch: Any, first: int) -> tuple[int, pd.DataFrame]:
        for name in columns:
            column = batch.column(name)
            if column.null_count and name in needed:
                row = int(np.argmax(np.asarray(column.is_null())))
                raise Flaw(row, name, "no value", "one in every row")
        return first, _frame(batch)

    for number in range(len(files.groups)):
        yield from decoded(files, number, part, columns, AT_ONCE)


def first_rows(files: Files) -> pd.DataFrame:
    """A few rows with all columns."""
    return _frame(next(files.batches(files.groups[0], files.columns, 64)))


def _values(files: Files, name: str) -> list[Any]:
    """The different values of a label; of more than a few the first ones, which are too many anyway."""
    found: dict[Any, None] = {}
    for _, frame in parts_of(files, [name]):
        found |= dict.fromkeys(frame[name].unique().tolist())
        if len(found) > 100:
            break
    return list(found)


def _frame(batch: Any) -> pd.DataFrame:
    frame = batch.to_pandas()
    for name in frame.columns[frame.dtypes == "category"]:  # whether a writer used a dictionary is no difference
        frame[name] = frame[name].astype(object)
    return frame
