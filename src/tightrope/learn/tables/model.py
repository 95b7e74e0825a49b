"""A classifier of the rows of a table, kept in a folder; its labels, and its predictions part by part."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from tightrope.files import Folder
from tightrope.learn.tables.encoder import TableEncoder
from tightrope.learn.tables.reading import TableParts, left_out, need_columns, some_of
from tightrope.names import in_csv


@dataclasses.dataclass(frozen=True)
class TableModel:
    """A classifier of the rows of a table: what a folder holds.

    Attributes:
        encoder: makes features from the table.
        classifier: decides by these features; its labels are 0 and 1.
        label: the column that is predicted.
        labels: its two values, the positive one second.
        groups: the columns of groups: sensitive ones, or those in whose groups limits were asked for.
    """

    encoder: TableEncoder
    classifier: Any
    label: str
    labels: tuple[Any, Any]
    groups: tuple[str, ...] = ()

    folder: ClassVar[Folder]  # how it is kept
    kind: ClassVar[Any]  # the classifier's class
    role: ClassVar[str]  # what the columns of groups are called in the folder
    called: ClassVar[tuple[str, str]]  # and in a sentence: one of them, and all
    measures: ClassVar[str]  # what `measure` gives, in words

    @classmethod
    def columns(
        cls, frame: pd.DataFrame, label: str, groups: Sequence[str], drop: Sequence[str] = (), as_features: bool = False
    ) -> tuple[list[str], list[str]]:
        """The columns that are features, and all that are used; refuses names that are not there or have two meanings.

        Args:
            frame: the table.
            label, groups, drop: the column to predict, those of groups, and those to leave out.
            as_features: whether those of groups are features as well.
        """
        need_columns(frame, [label, *groups, *drop])
        (one, all_of_them), names = cls.called, (label, *groups)
        both = [name for name in names if name in drop or (name == label and name in groups)]
        if both:
            raise ValueError(f"{both[0]!r} was given twice, with different meanings; expected label, {one} or drop.")
        others = {label, *drop, *(() if as_features else groups)}
        features = [str(name) for name in frame.columns if name not in others]
        if not features:
            raise ValueError(f"No column is left to learn from, besides the label, {all_of_them} and those to drop.")
        return features, [*dict.fromkeys([*features, *groups, label])]

    def predict(self, frame: pd.DataFrame) -> pd.DataFrame:
        """For each row the column `prediction`, a label, and a number that says how surely."""
        raise NotImplementedError

    def measure(self, frame: pd.DataFrame, prediction: Any) -> pd.DataFrame:
        """What predictions come to on rows that have the columns `measured_by`: a row for each measure."""
        raise NotImplementedError

    @property
    def measured_by(self) -> tuple[str, ...]:
        """The columns that `measure` needs."""
        return self.groups

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that `predict` and `measure` look at."""
        return (*(column.name for column in self.encoder.columns), *self.measured_by, self.label)

    def named(self, positive: np.ndarray) -> list[Any]:
        """The labels of rows that are decided positive, or not."""
        return [self.labels[int(one)] for one in positive]

    def save(self, folder: str | Path) -> None:
        """Write classifier and table into a folder, which is made where it is not there."""
        about = {
            "label": self.label,
            "labels": list(self.labels),
            self.role: list(self.groups),
            "encoder": self.encoder.to_dict(),
        }
        self.folder.write(folder, self.classifier.save, about)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a folder that `save` wrote; one that was changed or is something else is refused."""
        arrays, about = cls.folder.read(folder)
        encoder, classifier = TableEncoder.from_dict(about["encoder"]), cls.kind.load(arrays)
        return cls(encoder, classifier, about["label"], tuple(about["labels"]), tuple(about[cls.role]))


def two_labels(column: "pd.Series[Any]", name: str, positive: Any) -> tuple[Any, Any]:
    """The two values of a label, the positive one second; by default that is the last in order."""
    found = list(dict.fromkeys(column.tolist()))
    if len(found) != 2:
        values = f"{len(found):,} different value{'s' * (len(found) > 1)} ({some_of(list(map(repr, found)), 4)})"
        raise ValueError(f"The label {name} has {values}; expected two. Merge values, or choose another column.")
    negative, last = sorted(found) if isinstance(found[0], type(found[1])) else sorted(found, key=str)
    if positive is None or str(positive) == str(last):
        return negative, last
    if str(positive) == str(negative):
        return last, negative
    raise ValueError(
        f"The positive label is {positive!r} and {name} is {negative!r} or {last!r}; expected one of these."
    )


def is_label(column: "pd.Series[Any]", name: str, labels: tuple[Any, Any]) -> np.ndarray:
    """Which rows have the positive label; refuses values that are neither."""
    values = column.tolist()
    strange = next((value for value in values if value not in labels), None)
    if strange is not None:
        raise ValueError(f"The label {name} has the value {strange!r}; expected {labels[0]!r} or {labels[1]!r}.")
    return np.array([value == labels[1] for value in values])


_PREDICTION = "the prediction of this row"


def predict_parts(
    model: TableModel, parts: TableParts, drop_missing: bool, out: Any
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
