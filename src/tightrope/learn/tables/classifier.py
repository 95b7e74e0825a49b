"""A fair classifier from a table: fitted without and with its constraint, compared on held-out rows, kept in a folder."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from tightrope.files import Folder, Form
from tightrope.learn.fair.by_rates import RatesRun
from tightrope.learn.fair.classifier import FairLogisticRegression
from tightrope.learn.fair.refusal import Refused
from tightrope.learn.fairness.sensitive import Sensitive, read_sensitive
from tightrope.learn.tables.encoder import ReadParts, TableEncoder
from tightrope.learn.tables.model import TableModel, is_label, two_labels
from tightrope.learn.tables.reading import need_columns, refuse_missing
from tightrope.learn.tables.report import REPORT, add_report, as_text, compare

FRONTIER, TRACE = "frontier.png", "trace.png"
"""The picture of a folder: of the thresholds tried for a p%-rule, or of the run where the covariance was given."""

FOLDER = Folder(
    Form("table classifier", 1, "Fit again, with tightrope fit."),
    writer="tightrope fit",
    arrays="classifier.safetensors",
    meaning="table.json",
    others=(REPORT, FRONTIER, TRACE),
)


class TableClassifier(TableModel):
    """A classifier that keeps a fairness rule: a folder of `tightrope fit`; `groups` are the sensitive columns."""

    folder = FOLDER
    kind = FairLogisticRegression
    role = "sensitive"
    called = "sensitive", "the sensitive ones"
    measures = "accuracy and p%-rule"

    def predict(self, frame: pd.DataFrame) -> pd.DataFrame:
        """For each row the column `prediction`, a label, and `probability`, that of the positive label."""
        features = self.encoder.transform(frame)
        positive, probability = self.classifier.predict(features), self.classifier.predict_proba(features)[:, 1]
        return pd.DataFrame({"prediction": self.named(positive), "probability": probability}, index=frame.index)

    def measure(self, frame: pd.DataFrame, prediction: Any) -> pd.DataFrame:
        """What predictions come to on rows whose sensitive columns, and maybe labels, are known; see `compare`."""
        need_columns(frame, self.groups)
        refuse_missing(frame, self.groups)
        given = frame[list(self.groups)]
        sensitive = read_sensitive(given, "The sensitive columns", attributes=self.classifier.attributes_)
        truth = None
        if self.label in frame.columns:
            refuse_missing(frame, [self.label])
            truth = is_label(frame[self.label], self.label, self.labels)
        decided = [value == self.labels[1] for value in prediction]
        return compare({"classifier": decided}, sensitive, truth, self.classifier.notion)


@dataclasses.dataclass(frozen=True)
class Fitted:
    """What `fit_table` gives back.

    Attributes:
        model: the classifier with the constraint, which takes rows of the table.
        plain: the one without, which takes the same features.
        comparison: both on the rows held out; see `compare`.
        train, test: the numbers of the rows fitted to and held out.
    """

    model: TableClassifier
    plain: FairLogisticRegression
    comparison: pd.DataFrame
    train: np.ndarray
    test: np.ndarray

    def lines(self) -> list[str]:
        """What was asked for, what was chosen and what it was measured on, in sentences."""
        model, fair = self.model, self.model.classifier
        said = [
            f"Selected: who is predicted {model.label} = {model.labels[1]}. Sensitive: {', '.join(model.groups)}.",
            f"Fitted to {len(self.train):,} rows and {len(model.encoder.names)} features; measured on {len(self.test):,} "
            "other rows.",
        ]
        if isinstance(fair.result_, RatesRun):
            return [*said, fair.result_.sentence, fair.result_.price]
        said += [f"Covariance of score and sensitive attribute: at most {_in_words(fair.threshold_)}."]
        if fair.frontier_ is not None:
            path = fair.frontier_
            bound = float(path["p_rule_bound"].iloc[int(np.argmin(np.abs(path["threshold"] - fair.threshold_)))])
            said += [
                f"It was found by {fair.search} on the rows fitted to, for a p%-rule of {fair.p_rule:g}: there it is at "
                f"least {bound:.3f}, with {fair.confidence:.0%} confidence."
            ]
        return said

    def __str__(self) -> str:
        return "\n".join([*self.lines(), "", as_text(self.comparison)])

    def save(self, folder: str | Path, notes: Sequence[str] = ()) -> list[str]:
        """Write the model, the report and a picture into a folder; gives the names of the files.

        The picture, of the frontier for `p_rule` and of the run otherwise, is left out where matplotlib is not installed.
        """
        fair = self.model.classifier
        self.model.save(folder)
        runs = f"without the constraint\n{self.plain.result_}\n\nwith the constraint\n{fair.result_}"
        report = [str(self), *(f"Note: {note}" for note in notes), runs]
        if fair.frontier_ is None and not isinstance(fair.result_, RatesRun):
            return add_report(FOLDER, Path(folder), report, TRACE, fair.result_.plot)
        return add_report(FOLDER, Path(folder), report, FRONTIER, lambda path: fair.plot_frontier(path, fair.frontier_))


def fit_table(
    frame: pd.DataFrame,
    label: str,
    sensitive: Sequence[str],
    *,
    positive: Any = None,
    drop: Sequence[str] = (),
    sensitive_as_features: bool = False,
    text: str = "indicators",
    test_share: float = 0.3,
    seed: int = 0,
    parts: ReadParts | None = None,
    **parameters: Any,
) -> Fitted:
    """Fit a classifier with a fairness constraint and one without to a table, and compare them on held-out rows.

    All columns are features but the label, the sensitive ones and those to drop. Both classifiers see the same rows.

    Args:
        frame: a row for each person: text and numbers, nothing missing.
        label: the column to predict, of two values.
        sensitive: the sensitive columns.
        positive: the label that means being selected; by default the last of the two in order. May be given as text.
        drop: columns to leave out.
        sensitive_as_features: use the sensitive columns as features as well.
        text: what text becomes, "indicators" or "codes"; see `TableEncoder`.
        test_share: the share of the rows held out, of each label and group alike.
        seed: decides the split, and is the `random_state` of `FairLogisticRegression`.
        parts: where `frame` was drawn from a larger table, what gives the parts of that table (`TableEncoder.fit`).
        parameters: passed on to `FairLogisticRegression`: p_rule or covariance, and any other.

    Example: `fit_table(load_adult(), "income", ["sex"], covariance=0.05).comparison`.
    """
    features, used = TableClassifier.columns(frame, label, sensitive, drop, sensitive_as_features)
    if not sensitive:
        raise ValueError("No sensitive column was given; expected at least one.")
    refuse_missing(frame, used)
    labels = two_labels(frame[label], label, positive)
    truth = is_label(frame[label], label, labels)
    kind = parameters.get("sensitive_kind")
    attributes = read_sensitive(frame[list(sensitive)], "The sensitive columns", kind=kind)
    classifier = FairLogisticRegression(**parameters, random_state=seed)
    train, test = _split(truth, attributes, test_share, seed)
    encoder = TableEncoder(text=text).fit(frame[features], train, parts)
    X = encoder.transform(frame[features])
    y, Z = truth.astype(int), X.iloc[test]
    # the constraint first: what it cannot promise need not be compared with anything
    fair = classifier.fit(X.iloc[train], y[train], sensitive_features=attributes.take(train))
    others = {k: v for k, v in parameters.items() if k not in ("p_rule", "difference", "covariance", "selected")}
    plain = FairLogisticRegression(**others, random_state=seed).fit(X.iloc[train], y[train])
    people = read_sensitive(frame[list(sensitive)], attributes=fair.attributes_)  # merged and crossed alike
    decided = {"without": plain.predict(Z) == 1, "with constraint": fair.predict(Z) == 1}
    comparison = compare(decided, people.take(test), truth[test], fair.notion)
    model = TableClassifier(encoder, fair, label, labels, tuple(sensitive))
    return Fitted(model, plain, comparison, train, test)


def draw_refused(refused: Refused, asked: float | None, folder: Path) -> list[str]:
    """Draw the path of a p%-rule that was refused into a folder; gives the name of the file, if there is one.

    There is none where matplotlib is not installed.
    """
    from tightrope.learn.fair.picture import plot_frontier
    from tightrope.plotting import write_figure

    try:
        figure = plot_frontier(refused.frontier, asked)
    except ImportError:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    write_figure(figure, folder / FRONTIER)
    return [FRONTIER]


def _split(truth: np.ndarray, sensitive: Sensitive, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers for training and test; labels and groups together where that leaves enough rows of each."""
    if not 0 < share < 1:
        raise ValueError(f"The share of test rows is {share!r}; expected a number between 0 and 1, such as 0.3.")
    rows = np.arange(len(truth))
    for strata in (sensitive.strata(truth), truth):
        fewest = np.unique(strata, return_counts=True)[1]
        if fewest.min() > 1 and min(share, 1 - share) * len(rows) >= len(fewest):
            train, test = train_test_split(rows, test_size=share, random_state=seed, stratify=strata)
            return np.sort(train), np.sort(test)
    raise ValueError(
        f"There are {len(rows):,} rows, {int(truth.sum()):,} of them positive, which is too few to hold out a share of "
        f"{share:g}; give more rows."
    )


def _in_words(threshold: Any) -> str:
    if isinstance(threshold, Mapping):
        return ", ".join(f"{value:.3g} ({name})" for name, value in threshold.items())
    return f"{threshold:.3g}"
