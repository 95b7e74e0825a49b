"""`tightrope classify`: a classifier with a certified rate, from a table."""

from pathlib import Path
from typing import Annotated

import typer

from tightrope.learn.cli.errors import Debug, UsageError, stoppable
from tightrope.learn.cli.fit_predict import name_and_value, without_missing
from tightrope.learn.cli.options import Drop, DropMissing, Force, Json, Label, Out, Text, TextOption
from tightrope.learn.cli.output import check_folder
from tightrope.learn.cli.printing import busy, noted, print_made


def classify(
    table: Annotated[Path, typer.Argument(help="The table, a row for each case: .csv, .tsv or .parquet.")],
    label: Label,
    out: Out,
    maximize: Annotated[
        str,
        typer.Option(
            help="recall, precision, specificity, accuracy, selection_rate; or -fpr, -fnr, -cost to minimise."
        ),
    ] = "recall",
    at_most: Annotated[
        list[str] | None, typer.Option(help="A limit from above, such as fpr=0.003; may be given several times.")
    ] = None,
    at_least: Annotated[
        list[str] | None, typer.Option(help="A limit from below, such as recall=0.6; may be given several times.")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="A column in each of whose groups every limit has to hold.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="With which the limits are to hold.")] = 0.95,
    cost: Annotated[
        list[str] | None, typer.Option(help="For the metric cost: fp=1 and fn=10, what an error costs; twice.")
    ] = None,
    positive: Annotated[
        str | None, typer.Option(help="The label that is looked for; by default the last in order.")
    ] = None,
    drop: Drop = None,
    drop_missing: DropMissing = False,
    group_as_feature: Annotated[
        bool, typer.Option("--group-as-feature", help="Use the columns of groups as features, too.")
    ] = False,
    text: TextOption = Text.indicators,
    uncertified: Annotated[
        bool, typer.Option("--uncertified", help="Write a model even where the limits could not be certified.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Decides which rows judge.", min=0)] = 0,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Find as many as possible while rates keep their limits, with a certificate.

    Fits a linear score to half of the rows; the others certify its threshold. Prints what was shown and writes the model, a
    report and a picture.
    """
    subject_to: dict[str, list[str]] = {}
    for sign, limits in (("<=", at_most), (">=", at_least)):
        for name, number in name_and_value(limits or (), "--at-most" if sign == "<=" else "--at-least", "fpr=0.003"):
            subject_to.setdefault(name, []).append(f"{sign} {number}")
    if not subject_to:
        raise UsageError("Neither --at-most nor --at-least was given; expected a limit, such as --at-most fpr=0.003.")
    costs = dict(name_and_value(cost or (), "--cost", "fp=1")) or None
    check_folder(out, force)

    from tightrope.learn.tables.constrained import ConstrainedTable, classify_table
    from tightrope.learn.tables.reading import read_table

    frame = read_table(table)
    _, used = ConstrainedTable.columns(frame, label, group or (), drop or (), group_as_feature)
    frame, notes = without_missing(frame, used) if drop_missing else (frame, [])
    with stoppable(), noted(notes), busy(f"Fitting to {len(frame):,} rows ..."):
        made = classify_table(
            frame, label, subject_to, groups=group or (), positive=positive, drop=drop or (),
            groups_as_features=group_as_feature, text=text.value, seed=seed, maximize=maximize, confidence=confidence,
            costs=costs, uncertified="warn" if uncertified else "raise",
        )  # fmt: skip
    notes = [note for note in notes if not note.startswith("Not certified")]  # the certificate has said it
    print_made(made, notes, out, as_json)
