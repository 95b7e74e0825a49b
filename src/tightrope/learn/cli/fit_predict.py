"""`tightrope fit` and `tightrope predict`: a classifier that keeps a fairness rule, from a table and for a table."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from tightrope.learn.cli.errors import Debug, UsageError, stoppable
from tightrope.learn.cli.options import FAIR, Drop, DropMissing, Force, Json, Label, Out, Text, TextOption, taking
from tightrope.learn.cli.output import check_file, check_folder
from tightrope.learn.cli.printing import busy, noted, print_made, print_table, print_written, say_notes
from tightrope.names import visible

if TYPE_CHECKING:
    import pandas as pd

_RULES = ("p_rule", "difference", "covariance")
_ONE_OF_THEM = "expected one of them: --p-rule 0.8, --difference 0.05, or --covariance 0.05."


class FitCommand(TyperCommand):
    """The command `fit`, whose help names all methods and notions and what is taken where an option of the classifier is not
    given; they are looked up when it is asked for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Name the methods, the notions and the classifier's defaults, then help as ever."""
        from tightrope.learn.fair.classifier import FairLogisticRegression
        from tightrope.learn.fairness.notions import NOTIONS
        from tightrope.methods import registered

        defaults = FairLogisticRegression().get_params()
        options: Any = {option.name: option for option in self.params}
        for name in FAIR:
            options[name].default = defaults[name]
        options["method"].help = f"auto, {', '.join(registered())}."
        options["notion"].metavar = f"<{'|'.join(NOTIONS)}>"
        super().format_help(ctx, formatter)


@taking(FAIR)
def fit(
    people: Annotated[
        Path,
        typer.Argument(help="The table, a row for each person: .csv, .tsv, .parquet, or a folder of Parquet files."),
    ],
    label: Label,
    sensitive: Annotated[list[str], typer.Option(help="A sensitive column; may be given several times.")],
    out: Out,
    positive: Annotated[
        str | None, typer.Option(help="The label that means being selected; by default the last in order.")
    ] = None,
    drop: Drop = None,
    drop_missing: DropMissing = False,
    sensitive_as_features: Annotated[
        bool, typer.Option("--sensitive-as-features", help="Use the sensitive columns as features, too.")
    ] = False,
    text: TextOption = Text.indicators,
    test_share: Annotated[float, typer.Option(help="The share of the rows that is held out to measure on.")] = 0.3,
    seed: Annotated[int, typer.Option(help="The same one gives the same model.", min=0)] = 0,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
    **parameters: Any,
) -> None:
    """Fit a classifier that keeps a fairness rule, and compare it with one that does not.

    Prints both on held-out rows and writes the model, a report and a picture. Of a folder 200,000 rows are drawn at most.
    """
    given = [f"--{name.replace('_', '-')}" for name in _RULES if name in parameters]
    if not given:
        raise UsageError(f"None of --p-rule, --difference and --covariance was given; {_ONE_OF_THEM}")
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} were both given; {_ONE_OF_THEM}")
    if "sensitive_kind" in parameters:
        words = parameters["sensitive_kind"]
        parameters["sensitive_kind"] = dict(name_and_value(words, "--sensitive-kind", "region=categorical"))
    check_folder(out, force)

    from tightrope.learn.fair.refusal import Refused
    from tightrope.learn.tables.classifier import TableClassifier, draw_refused, fit_table
    from tightrope.learn.tables.reading import read_rows

    notes: list[str] = []
    rows = read_rows(people, seed)
    frame = rows.frame
    if drop_missing:
        _, used = TableClassifier.columns(frame, label, sensitive, drop or (), sensitive_as_features)
        frame, notes = without_missing(frame, used)
    notes = [rows.sentence, *notes] if rows.sentence else notes
    search = " and searching for the threshold" if "p_rule" in parameters else ""
    try:
        with stoppable(), noted(notes), busy(f"Fitting to {len(frame):,} rows{search} ..."):
            fitted = fit_table(
                frame, label, sensitive, positive=positive, drop=drop or (), sensitive_as_features=sensitive_as_features,
                text=text.value, test_share=test_share, seed=seed, parts=rows.parts, **parameters,
            )  # fmt: skip
    except Refused as refused:
        say_notes(notes)
        drawn = draw_refused(refused, parameters.get("p_rule"), out)
        if drawn:
            print_written(out, drawn)
        raise
    print_made(fitted, [note for note in notes if note not in str(fitted)], out, as_json)


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
    """Predict a label for each row, which are numbered from 1, with its probability or score. Before a label that a
    spreadsheet would compute, such as =x, stands an apostrophe.

    Where the table has the columns that it takes, also print how good the predictions are: accuracy and p%-rule for a model
    of tightrope fit, the rates for one of tightrope classify. Of a folder 200,000 rows are measured at most.
    """
    if out is not None:
        check_file(out, force)

    from tightrope.learn.tables.constrained import load_classifier
    from tightrope.learn.tables.model import predict_parts
    from tightrope.learn.tables.reading import read_parts
    from tightrope.learn.tables.report import as_table

    classifier = load_classifier(model)
    parts = read_parts(people, classifier.needs)
    with _to(out) as file:
        rows, measured, notes = predict_parts(classifier, parts, drop_missing, file)
    if measured is not None:
        print_table(as_table(measured), whole=True, stderr=out is None)  # stdout has the predictions
    say_notes(notes)
    if out is not None:
        print(visible(f"Written to {out}: {rows:,} rows."))


@contextlib.contextmanager
def _to(out: Path | None) -> Iterator[Any]:
    """The screen, or a file that is there whole or not at all."""
    if out is None:
        yield sys.stdout
        return
    from tightrope.files import beside

    with beside(out) as unfinished, open(unfinished, "w", newline="", encoding="utf-8") as file:
        yield file


def name_and_value(words: Sequence[str], option: str, example: str) -> list[tuple[str, str]]:
    """Names and what they are set to, from words such as "fpr=0.003"."""
    pairs = [word.partition("=") for word in words]
    wrong = next((word for word, (name, _, value) in zip(words, pairs, strict=True) if not name or not value), None)
    if wrong is not None:
        raise UsageError(f"{option} is {wrong!r}; expected a name and a value, such as {example}.")
    return [(name.strip(), value.strip()) for name, _, value in pairs]


def without_missing(frame: "pd.DataFrame", used: Sequence[str]) -> "tuple[pd.DataFrame, list[str]]":
    """The rows that have all these columns, and a note on the others."""
    from tightrope.learn.tables.reading import left_out

    kept = frame.dropna(subset=list(used))
    return kept, left_out(len(frame) - len(kept), len(frame))
