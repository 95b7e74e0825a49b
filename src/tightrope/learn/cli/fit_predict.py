"""`tightrope fit` and `tightrope predict`: a classifier that keeps a fairness rule, from a table and for a table."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from tightrope.learn.cli.errors import Debug, UsageError, stoppable
from tightrope.learn.cli.options import Json, Text, TextOption
from tightrope.learn.cli.output import check_file, check_folder
from tightrope.learn.cli.printing import busy, noted, print_made, print_table, print_written, say_notes

if TYPE_CHECKING:
    import pandas as pd

DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")]

_ONE_OF_THEM = "expected one of them: --p-rule 0.8, --difference 0.05, or --covariance 0.05."


class FitCommand(TyperCommand):
    """The command `fit`, whose help names all methods and notions; they are looked up when it is asked for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Name the methods and the notions, then help as ever."""
        from tightrope.learn.fairness.notions import NOTIONS
        from tightrope.methods import registered

        options: Any = {option.name: option for option in self.params}
        options["method"].help = f"auto, {', '.join(registered())}."
        options["notion"].metavar = f"<{'|'.join(NOTIONS)}>"
        super().format_help(ctx, formatter)


def fit(
    people: Annotated[
        Path,
        typer.Argument(help="The table, a row for each person: .csv, .tsv, .parquet, or a folder of Parquet files."),
    ],
    label: Annotated[str, typer.Option(help="The column to predict; it has two values.")],
    sensitive: Annotated[list[str], typer.Option(help="A sensitive column; may be given several times.")],
    out: Annotated[Path, typer.Option(help="The folder to write the model to.")],
    p_rule: Annotated[float | None, typer.Option(help="The p%-rule to keep, such as 0.8.")] = None,
    difference: Annotated[float | None, typer.Option(help="Or the largest difference of rates, such as 0.05.")] = None,
    covariance: Annotated[
        float | None, typer.Option(help="Or the largest covariance of score and sensitive attribute.")
    ] = None,
    constraint: Annotated[
        str, typer.Option(help="How the rule is kept: auto, rates (of groups, smoothed) or covariance.")
    ] = "auto",
    judge: Annotated[
        str, typer.Option(help="Who says that it is kept: cross-fit, or holdout, a part of the rows.")
    ] = "cross-fit",
    selected: Annotated[
        tuple[float, float] | None,
        typer.Option(help="The smallest and the largest share to select: --selected 0.1 0.3."),
    ] = None,
    positive: Annotated[
        str | None, typer.Option(help="The label that means being selected; by default the last in order.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be given several times.")] = None,
    drop_missing: DropMissing = False,
    sensitive_as_features: Annotated[
        bool, typer.Option("--sensitive-as-features", help="Use the sensitive columns as features, too.")
    ] = False,
    text: TextOption = Text.indicators,
    test_share: Annotated[float, typer.Option(help="The share of the rows that is held out to measure on.")] = 0.3,
    notion: Annotated[str, typer.Option(help="Among whom rates are compared.")] = "demographic_parity",
    confidence: Annotated[float, typer.Option(help="With which --p-rule is to hold on rows not seen.")] = 0.95,
    radius: Annotated[float, typer.Option(help="Of the ball that standardised coefficients lie in.")] = 10.0,
    intersections: Annotated[
        bool, typer.Option(help="Constrain the groups that several sensitive columns make together, too.")
    ] = True,
    merge_rare: Annotated[
        bool, typer.Option(help="Treat groups with too few rows to be judged as one, and say which.")
    ] = True,
    sensitive_kind: Annotated[
        list[str] | None,
        typer.Option(help="What a sensitive column of numbers is: NAME=categorical or NAME=continuous; several times."),
    ] = None,
    method: Annotated[str, typer.Option()] = "auto",  # FitCommand says which there are, and which notions
    seed: Annotated[int, typer.Option(help="The same one gives the same model.", min=0)] = 0,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that has files.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Fit a classifier that keeps a fairness rule, and compare it with one that does not.

    Prints both on held-out rows and writes the model, a report and a picture.
    """
    asked = {"--p-rule": p_rule, "--difference": difference, "--covariance": covariance}
    given = [name for name, value in asked.items() if value is not None]
    if not given:
        raise UsageError(f"None of --p-rule, --difference and --covariance was given; {_ONE_OF_THEM}")
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} were both given; {_ONE_OF_THEM}")
    kinds = dict(name_and_value(sensitive_kind or (), "--sensitive-kind", "region=categorical"))
    check_folder(out, force)

    from tightrope.learn.fair.refusal import Refused
    from tightrope.learn.tables.classifier import draw_refused, fit_table, used_columns
    from tightrope.learn.tables.from_files import fit_folder
    from tightrope.learn.tables.reading import read_table

    notes: list[str] = []
    if people.is_dir():
        refuse_dropping(drop_missing)
        frame: Any = people
        learn: Any = fit_folder
        rows = f"the files of {people}"
    else:
        frame, learn = read_table(people), fit_table
        _, used = used_columns(frame, label, sensitive, drop or (), sensitive_as_features)
        frame, notes = without_missing(frame, used) if drop_missing else (frame, [])
        rows = f"{len(frame):,} rows"
    search = " and searching for the threshold" if p_rule is not None else ""
    try:
        with stoppable(), noted(notes), busy(f"Fitting to {rows}{search} ..."):
            fitted = learn(
                frame, label, sensitive, positive=positive, drop=drop or (), sensitive_as_features=sensitive_as_features,
                text=text.value, test_share=test_share, seed=seed, p_rule=p_rule, covariance=covariance, notion=notion,
                difference=difference, constraint=constraint, judge=judge, selected=selected, method=method,
                confidence=confidence, radius=radius, intersections=intersections, merge_rare=merge_rare,
                sensitive_kind=kinds or None,
            )  # fmt: skip
    except Refused as refused:
        say_notes(notes)
        drawn = draw_refused(refused, p_rule, out)
        if drawn:
            print_written(out, drawn)
        raise
    print_made(fitted, notes, out, as_json)


def predict(
    model: Annotated[Path, typer.Argument(help="A folder that tightrope fit or tightrope classify wrote.")],
    people: Annotated[
        Path, typer.Argument(help="The table to predict: .csv, .tsv, .parquet, or a folder of Parquet files.")
    ],
    out: Annotated[Path | None, typer.Option(help="The CSV file to write to; by default the screen.")] = None,
    drop_missing: DropMissing = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    debug: Debug = False,
) -> None:
    """Predict a label for each row, which are numbered from 1, with its probability or score.

    Where the table has the columns that it takes, also print how good the predictions are: accuracy and p%-rule for a model
    of tightrope fit, the rates for one of tightrope classify.
    """
    if out is not None:
        check_file(out, force)

    import pandas as pd

    from tightrope.learn.tables.load import load_classifier
    from tightrope.learn.tables.reading import read_table
    from tightrope.learn.tables.report import as_table

    classifier = load_classifier(model)
    if people.is_dir():
        refuse_dropping(drop_missing)
        _predict_folder(classifier, people, out)
        return
    frame = read_table(people)
    frame.index = pd.RangeIndex(1, len(frame) + 1, name="row")
    needed = [column.name for column in classifier.encoder.columns if column.name in frame.columns]
    frame, notes = without_missing(frame, needed) if drop_missing else (frame, [])
    predictions = classifier.predict(frame)
    measured = None
    if set(classifier.measured_by) <= set(frame.columns):
        try:
            measured = classifier.measure(frame, predictions["prediction"])
        except ValueError as error:  # the predictions are right all the same
            notes.append(f"{classifier.measures} are not measured. {error}")
    predictions.to_csv(sys.stdout if out is None else out)
    if measured is not None:
        print_table(as_table(measured), whole=True, stderr=out is None)  # stdout has the predictions
    say_notes(notes)
    if out is not None:
        print(f"Written to {out}: {len(predictions):,} rows.")


def _predict_folder(classifier: Any, folder: Path, out: Path | None) -> None:
    """Predict Parquet files part by part; a file that is written is there whole or not at all."""
    from tightrope.learn.tables.from_files import predict_folder
    from tightrope.learn.tables.report import as_table

    if out is None:
        rows, measured, notes = predict_folder(classifier, folder, sys.stdout)
    else:
        unfinished = out.with_name(f"{out.name}.unfinished")
        try:
            with open(unfinished, "w", newline="", encoding="utf-8") as file:
                rows, measured, notes = predict_folder(classifier, folder, file)
            unfinished.replace(out)
        finally:
            unfinished.unlink(missing_ok=True)
    if measured is not None:
        print_table(as_table(measured), whole=True, stderr=out is None)
    say_notes(notes)
    if out is not None:
        print(f"Written to {out}: {rows:,} rows.")


def refuse_dropping(drop_missing: bool) -> None:
    """Refuse --drop-missing for files: how many rows there are must not depend on what is in them."""
    if drop_missing:
        raise UsageError(
            "--drop-missing was given with a folder of files; expected files without missing values, or one file."
        )


def name_and_value(words: Sequence[str], option: str, example: str) -> list[tuple[str, str]]:
    """Names and what they are set to, from words such as "fpr=0.003"."""
    pairs = [word.partition("=") for word in words]
    wrong = next((word for word, (name, _, value) in zip(words, pairs, strict=True) if not name or not value), None)
    if wrong is not None:
        raise UsageError(f"{option} is {wrong!r}; expected a name and a value, such as {example}.")
    return [(name.strip(), value.strip()) for name, _, value in pairs]


def without_missing(frame: "pd.DataFrame", used: Sequence[str]) -> "tuple[pd.DataFrame, list[str]]":
    """The rows that have all these columns, and a note on the others."""
    kept = frame.dropna(subset=list(used))
    if kept.empty:
        raise ValueError(
            "Every row has missing values, so that none is left; leave columns out (--drop), or fill them in."
        )
    dropped = len(frame) - len(kept)
    return kept, [f"{dropped:,} of {len(frame):,} rows with missing values were left out."] if dropped else []
