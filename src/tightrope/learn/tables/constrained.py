"""A classifier that keeps limits, from a table: fitted to a part of its rows, certified by the others, kept in a folder."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tightrope.files import Folder, Form
from tightrope.learn.constrained.asked import BY_GROUP, METRICS
from tightrope.learn.constrained.classifier import ConstrainedClassifier, one_split
from tightrope.learn.constrained.draws import draws
from tightrope.learn.constrained.held_out import HeldOut
from tightrope.learn.fairness.sensitive import read_sensitive
from tightrope.learn.tables.classifier import TableClassifier
from tightrope.learn.tables.encoder import TableEncoder
from tightrope.learn.tables.model import TableModel, is_label, two_labels
from tightrope.learn.tables.reading import need_columns, refuse_missing
from tightrope.learn.tables.report import REPORT, add_report

ROC = "roc.png"
FOLDER = Folder(
    Form("constrained classifier", 1, "Classify again, with tightrope classify."),
    writer="tightrope classify",
    arrays="constrained.safetensors",
    meaning="constrained.json",
    others=(REPORT, ROC),
)
JUDGING_SHARE = ConstrainedClassifier().cv
"""The share of the rows that judges: what is taken where a user of the classifier does not say."""


class ConstrainedTable(TableModel):
    """A classifier that keeps limits: a folder of `tightrope classify`."""

    folder = FOLDER
    kind = ConstrainedClassifier
    role = "groups"
    called = "group", "those of groups"
    measures = "the rates"

    def predict(self, frame: pd.DataFrame) -> pd.DataFrame:
        """For each row the column `prediction`, a label, and `score`: how far it is above the threshold."""
        score = self.classifier.decision_function(self.encoder.transform(frame))
        return pd.DataFrame({"prediction": self.named(score > 0), "score": score}, index=frame.index)

    @property
    def measured_by(self) -> tuple[str, ...]:
        """The columns that `measure` needs."""
        return (self.label, *self.groups)

    def measure(self, frame: pd.DataFrame, prediction: Any) -> pd.DataFrame:
        """What predictions come to on rows whose labels are known: a row for each metric, also by group."""
        need_columns(frame, self.measured_by)
        refuse_missing(frame, self.measured_by)
        positive = is_label(frame[self.label], self.label, self.labels)
        selected = np.array([value == self.labels[1] for value in prediction], float)
        masks: dict[str, np.ndarray] = {"": np.ones(len(frame), bool)}
        for name in self.groups:
            masks |= {
                f", {name} = {group}": (frame[name] == group).to_numpy() for group in sorted(frame[name].unique())
            }
        rows = []
        for words, mask in masks.items():
            part = HeldOut(selected[mask], positive[mask], np.ones(int(mask.sum())), {})
            for name in METRICS:
                value, of = part.estimate(name, np.array([0.5]))[0], part.whole_counts(name, np.array([0.5]))[1][0]
                rows.append({"measure": name + words, "rows": int(of), "classifier": float(value)})
        return pd.DataFrame(rows)


@dataclasses.dataclass(frozen=True)
class Classified:
    """What `classify_table` gives back.

    Attributes:
        model: the classifier, which takes rows of the table.
        train, judge: the numbers of the rows fitted to, and of those that judged.
    """

    model: ConstrainedTable
    train: np.ndarray
    judge: np.ndarray

    def lines(self) -> list[str]:
        """What was asked for and what was shown, in sentences."""
        model = self.model
        return [
            f"Positive: {model.label} = {model.labels[1]}. Fitted to {len(self.train):,} rows and "
            f"{len(model.encoder.names)} features.",
            *str(model.classifier.certificate_).splitlines(),
        ]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def save(self, folder: str | Path, notes: Sequence[str] = ()) -> list[str]:
        """Write the model, the report and the picture into a folder; gives the names of the files."""
        self.model.save(folder)
        run = str(self.model.classifier.estimator_.result_)
        report = [str(self), *(f"Note: {note}" for note in notes), f"the run that the score comes from\n{run}"]
        return add_report(FOLDER, Path(folder), report, ROC, self.model.classifier.plot)


def classify_table(
    frame: pd.DataFrame,
    label: str,
    subject_to: Mapping[str, Any],
    *,
    groups: Sequence[str] = (),
    positive: Any = None,
    drop: Sequence[str] = (),
    groups_as_features: bool = False,
    text: str = "indicators",
    seed: int = 0,
    **parameters: Any,
) -> Classified:
    """Fit a linear score to half of a table's rows, under limits that the other half certifies.

    All columns are features but the label, those of groups and those to drop. How text becomes features is decided by the
    rows fitted to alone, like everything else that the certificate takes as given.

    Args:
        frame: text and numbers, nothing missing.
        label: the column to predict, of two values.
        subject_to: limits, as `ConstrainedClassifier` takes them.
        groups: columns in each of whose groups every limit has to hold.
        positive: the label that is looked for; by default the last of the two in order. May be given as text.
        drop: columns to leave out.
        groups_as_features: use the columns of groups as features as well.
        text: what text becomes, "indicators" or "codes"; see `TableEncoder`.
        seed: decides which rows judge.
        parameters: passed on to `ConstrainedClassifier`: maximize, confidence, costs, uncertified.

    Example: `classify_table(load_adult(), "income", {"fpr": 0.05}).model.classifier.certificate_`.
    """
    features, used = ConstrainedTable.columns(frame, label, groups, drop, groups_as_features)
    refuse_missing(frame, used)
    labels = two_labels(frame[label], label, positive)
    truth = is_label(frame[label], label, labels)
    limits = {key + BY_GROUP if groups else key: value for key, value in subject_to.items()}
    classifier = ConstrainedClassifier(subject_to=limits, random_state=seed, **parameters)
    everybody, draw = np.ones(len(truth), bool), draws(frame[[*features, *groups]], truth)
    train, judge = one_split(truth, everybody, JUDGING_SHARE, seed, classifier.asked.within_classes, draw)
    classifier.set_params(cv=[(train, judge)])
    encoder = TableEncoder(text=text).fit(frame[features], fit_on=train)
    attributes = read_sensitive(frame[list(groups)], "The columns of groups") if groups else None
    classifier.fit(encoder.transform(frame[features]), truth.astype(int), sensitive_features=attributes)
    classifier.set_params(cv=JUDGING_SHARE)  # which makes the same split, and can be kept in a file
    return Classified(ConstrainedTable(encoder, classifier, label, labels, tuple(groups)), train, judge)


def load_classifier(folder: str | Path) -> TableModel:
    """Read a folder of `tightrope fit` or `tightrope classify`; one that was changed or is something else is refused."""
    kind = ConstrainedTable if FOLDER.meaning_in(Path(folder)).exists() else TableClassifier
    return kind.load(folder)
