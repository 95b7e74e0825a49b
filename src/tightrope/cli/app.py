"""The command line: parses and prints, and leaves the work to the library."""

import contextlib
import inspect
import io
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, NoReturn

import pandas as pd
import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

import tightrope
from tightrope import datasets
from tightrope.methods import METHODS, Cost, Method
from tightrope.sets import SETS, ConvexSet
from tightrope.tables.classifier import (
    CLASSIFIER,
    FRONTIER,
    TRACE,
    Fitted,
    TableClassifier,
    fit_table,
    used_columns,
)
from tightrope.tables.ratings import COMPLETION, PICTURE, CompletedRatings, complete_ratings
from tightrope.tables.report import as_table
from tightrope.tables.table import read_table

_DEBUG = "tightrope.debug"


class _Stopped(BaseException):
    """Ctrl-C. Not a KeyboardInterrupt, which a run answers by returning what it has: a model has to be whole."""


class _Usage(ValueError):
    """Options that contradict each other."""


class _Group(TyperGroup):
    """The commands; what the library refuses becomes one sentence, and no traceback unless asked for."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, _Stopped) as error:
            _fail("Interrupted.", 130, error)
        except _Usage as error:
            _fail(str(error), 2, error)
        except BrokenPipeError as error:  # a reader such as `head` has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from error
        except (typer.Exit, typer.Abort):
            raise
        except (ValueError, TypeError, OSError, ImportError) as error:
            _fail(str(error), 1, error, ctx.meta.get(_DEBUG, False))
        except (RuntimeError, LookupError, ArithmeticError, MemoryError) as error:
            where = "Run again with --debug to see where it comes from."
            _fail(
                f"Something unexpected: {type(error).__name__}: {error}. {where}", 1, error, ctx.meta.get(_DEBUG, False)
            )


def _fail(sentence: str, code: int, error: BaseException, debug: bool = False) -> NoReturn:
    if debug:
        traceback.print_exception(error)
    _say(sentence, "red")
    raise typer.Exit(code) from error


def _say(sentence: str, style: str | None = None) -> None:
    """A sentence on stderr, as it is: no line breaks and no markup are made of it."""
    Console(stderr=True).print(sentence, style=style, markup=False, highlight=False, soft_wrap=True)


def _remember(ctx: typer.Context, debug: bool) -> bool:
    ctx.meta[_DEBUG] = debug or ctx.meta.get(_DEBUG, False)
    return debug


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tightrope {tightrope.__version__}")
        raise typer.Exit


Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.", callback=_remember)]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]

app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Stochastic optimisation with expectation constraints, and classifiers that keep a fairness rule.",
)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Debug = False,
) -> None:
    pass


def main() -> None:
    """The entry point `tightrope`."""
    app()


# ---- fair classification ---------------------------------------------------------------------------------------------


@app.command()
def fit(
    people: Annotated[Path, typer.Argument(help="The table, a row for each person: .csv, .tsv or .parquet.")],
    label: Annotated[str, typer.Option(help="The column to predict; it has two values.")],
    sensitive: Annotated[list[str], typer.Option(help="A sensitive column; may be given several times.")],
    out: Annotated[Path, typer.Option(help="The folder to write the model to.")],
    p_rule: Annotated[float | None, typer.Option(help="The p%-rule to keep, such as 0.8.")] = None,
    covariance: Annotated[
        float | None, typer.Option(help="Or the largest covariance of score and sensitive attribute.")
    ] = None,
    positive: Annotated[
        str | None, typer.Option(help="The label that means being selected; by default the last in order.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be given several times.")] = None,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")] = False,
    sensitive_as_features: Annotated[
        bool, typer.Option("--sensitive-as-features", help="Use the sensitive columns as features, too.")
    ] = False,
    text: Annotated[
        str, typer.Option(help="What text becomes: indicators, or codes, one number a column.")
    ] = "indicators",
    test_share: Annotated[float, typer.Option(help="The share of the rows that is held out to measure on.")] = 0.3,
    notion: Annotated[str, typer.Option(help="demographic_parity or equal_opportunity.")] = "demographic_parity",
    method: Annotated[str, typer.Option(help=f"auto, {', '.join(METHODS)}.")] = "auto",
    seed: Annotated[int, typer.Option(help="The same one gives the same model.", min=0)] = 0,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that has files.")] = False,
    debug: Debug = False,
) -> None:
    """Fit a classifier that keeps a fairness rule, and compare it with one that does not.

    Prints both on held-out rows and writes the model, a report and a picture.
    """
    if (p_rule is None) == (covariance is None):
        given = "neither --p-rule nor --covariance was" if p_rule is None else "--p-rule and --covariance were both"
        raise _Usage(f"{given[0].upper()}{given[1:]} given; expected one of them: --p-rule 0.8, or --covariance 0.05.")
    _check_folder(out, force)
    frame = read_table(people)
    _, used = used_columns(frame, label, sensitive, drop or (), sensitive_as_features)
    notes: list[str] = []
    if drop_missing:
        frame, note = _without_missing(frame, used)
        notes += note
    search = " and searching for the threshold" if p_rule is not None else ""
    with _noted(notes), _busy(f"Fitting to {len(frame):,} rows{search} ..."):
        fitted = fit_table(
            frame, label, sensitive, positive=positive, drop=drop or (), sensitive_as_features=sensitive_as_features,
            text=text, test_share=test_share, seed=seed, p_rule=p_rule, covariance=covariance, notion=notion, method=method,
        )  # fmt: skip
    _report(fitted, notes)
    files = fitted.save(out, notes)
    if not {FRONTIER, TRACE} & set(files):
        _say("Note: there is no picture, because matplotlib is not installed: pip install 'tightrope[plot]'.", "yellow")
    print(f"Written to {out}: {', '.join(files)}.")


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A folder that tightrope fit wrote.")],
    people: Annotated[Path, typer.Argument(help="The table to predict: .csv, .tsv or .parquet.")],
    out: Annotated[Path | None, typer.Option(help="The CSV file to write to; by default the screen.")] = None,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    debug: Debug = False,
) -> None:
    """Predict a label and the probability of the positive one for each row, which are numbered from 1.

    Where the table has the label and the sensitive columns, also print accuracy and p%-rule.
    """
    if out is not None and out.exists() and not force:
        raise ValueError(f"{out} is there already; give another file, or --force to write over it.")
    if out is not None and not out.parent.is_dir():
        raise ValueError(f"{out} cannot be written: there is no folder {out.parent}. Make it first.")
    classifier = TableClassifier.load(model)
    frame = read_table(people)
    frame.index = pd.RangeIndex(1, len(frame) + 1, name="row")
    notes: list[str] = []
    needed = [column.name for column in classifier.encoder.columns if column.name in frame.columns]
    if drop_missing:
        frame, notes = _without_missing(frame, needed)
    predictions = classifier.predict(frame)
    measured = None
    if set(classifier.sensitive) <= set(frame.columns):
        try:
            measured = classifier.measure(frame, predictions["prediction"])
        except ValueError as error:  # the predictions are right all the same
            notes.append(f"accuracy and p%-rule are not measured. {error}")
    predictions.to_csv(sys.stdout if out is None else out)
    console = Console(stderr=out is None)  # the screen's table is for people, stdout may go to a file
    if measured is not None:
        _print_table(console, as_table(measured))
    for note in notes:
        _say(f"Note: {note}", "yellow")
    if out is not None:
        print(f"Written to {out}: {len(predictions):,} rows.")


# ---- structured matrix completion ------------------------------------------------------------------------------------


@app.command()
def complete(
    ratings: Annotated[Path, typer.Argument(help="The table, a row for each rating: .csv, .tsv or .parquet.")],
    user: Annotated[str, typer.Option(help="The column that says who rated.")],
    item: Annotated[str, typer.Option(help="The column that says what was rated.")],
    rating: Annotated[str, typer.Option(help="The column with the ratings, numbers.")],
    out: Annotated[Path, typer.Option(help="The folder to write the model to.")],
    rank: Annotated[int | None, typer.Option(help="The largest rank of the matrix; by default 32.")] = None,
    nuclear_norm: Annotated[
        float | None, typer.Option(help="The largest sum of singular values; by default chosen.")
    ] = None,
    unobserved_energy: Annotated[
        float | None, typer.Option(help="The largest half sum of squares of what was not rated; by default chosen.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Of the completion.")] = 100,
    held_out: Annotated[float, typer.Option(help="The share of the ratings that is held out to measure on.")] = 0.1,
    seed: Annotated[int, typer.Option(help="The same one gives the same model.", min=0)] = 0,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that has files.")] = False,
    debug: Debug = False,
) -> None:
    """Complete a matrix of ratings, and compare its predictions with means on held-out ratings.

    Prints both errors and writes the model, a report and a picture.
    """
    _check_folder(out, force)
    frame = read_table(ratings)
    notes: list[str] = []
    with _noted(notes), _stoppable():  # the completion has progress bars of its own
        made = complete_ratings(
            frame, user, item, rating, test_share=held_out, seed=seed, rank=rank, nuclear_norm=nuclear_norm,
            unobserved_energy=unobserved_energy, steps=steps,
        )  # fmt: skip
    _report(made, notes)
    files = made.save(out, notes)
    if PICTURE not in files:
        _say("Note: there is no picture, because matplotlib is not installed: pip install 'tightrope[plot]'.", "yellow")
    print(f"Written to {out}: {', '.join(files)}.")
    users, items = (ids[:1].tolist() for ids in (made.model.users, made.model.items))
    print(
        f"from tightrope.tables.ratings import RatingsModel; RatingsModel.load({str(out)!r}).predict({users}, {items})"
    )


# ---- what both write and print ---------------------------------------------------------------------------------------


def _check_folder(folder: Path, force: bool) -> None:
    """Before any work: is this a place to write a model to?"""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; expected a folder to write the model to.")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        what = "holds a model" if any((folder / name).exists() for name in (CLASSIFIER, COMPLETION)) else "is not empty"
        raise ValueError(f"{folder} {what}; give another folder, or --force to write over it.")
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
        raise ValueError(f"{folder} cannot be written to: {nearest} does not allow it. Give another folder.")


def _without_missing(frame: pd.DataFrame, used: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    kept = frame.dropna(subset=list(used))
    if kept.empty:
        raise ValueError(
            "Every row has missing values, so that none is left; leave columns out (--drop), or fill them in."
        )
    dropped = len(frame) - len(kept)
    return kept, [f"{dropped:,} of {len(frame):,} rows with missing values were left out."] if dropped else []


def _report(fitted: Fitted | CompletedRatings, notes: Sequence[str]) -> None:
    for line in fitted.lines():
        print(line)
    _print_table(Console(), as_table(fitted.comparison))
    for note in notes:
        _say(f"Note: {note}", "yellow")


def _print_table(console: Console, table: Table) -> None:
    """As wide as it needs to be where nobody watches; cut to the screen where somebody does."""
    width = console.measure(table).maximum
    console.print(table, width=None if console.is_terminal else max(width, console.width))


@contextlib.contextmanager
def _noted(notes: list[str]) -> Iterator[None]:
    """Warnings of the library as notes, each of them once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    notes += dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))


@contextlib.contextmanager
def _busy(words: str) -> Iterator[None]:
    """A moving line while somebody watches, instead of the bars of single runs; and Ctrl-C that stops everything."""
    console = Console(stderr=True)
    with _stoppable(), contextlib.ExitStack() as stack:
        if console.is_terminal:
            stack.enter_context(Console(file=sys.stderr).status(words))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        yield


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C stops everything, where a run would answer it by returning what it has."""
    with contextlib.ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGINT, _stop)
            stack.callback(signal.signal, signal.SIGINT, before)
        yield


def _stop(*_: object) -> NoReturn:
    raise _Stopped


# ---- the paper -------------------------------------------------------------------------------------------------------


@app.command()
def reproduce(
    figures: Annotated[list[str] | None, typer.Argument(help="Which figures; by default all.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and shorter runs, for a first look.")] = False,
    out: Annotated[Path, typer.Option(help="The folder to write to; finished parts in it are not done again.")] = Path(
        "report"
    ),
    debug: Debug = False,
) -> None:
    """Compute the figures of the paper and judge its claims by them."""
    from tightrope.experiments import paper as figures_of_the_paper  # it is large, and needed here only

    claims = figures_of_the_paper.reproduce(figures or [], out, quick)
    table = Table("figure", "verdict", "claim", "evidence")
    for figure, judged in claims.items():
        for claim in judged:
            table.add_row(figure, claim.verdict, claim.sentence, claim.evidence)
    Console().print(table)
    print(f"Written to {out}.")


@app.command()
def leaderboard(
    quick: Annotated[bool, typer.Option("--quick", help="Two problems and short runs, for a first look.")] = False,
    method: Annotated[
        list[str] | None, typer.Option(help="A method; may be given several times. By default all.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write to; finished parts in it are not done again.")] = Path(
        "leaderboard"
    ),
    debug: Debug = False,
) -> None:
    """Run all methods against each other on problems with known solutions: same samples, same budget, same tuning."""
    from tightrope.experiments import leaderboard as contest  # it is large, and needed here only

    board = contest.leaderboard(out, quick, method or [])
    _print_table(Console(), contest.summary(board))
    for sentence in board.sentences:
        print(f"- {sentence}")
    print(f"{len(board.exceptions)} exceptions to the published rates are listed in {out / 'leaderboard.txt'}.")
    print(f"Written to {out}.")


# ---- what there is ---------------------------------------------------------------------------------------------------


@app.command()
def methods(as_json: Json = False, debug: Debug = False) -> None:
    """The methods: what each needs, what a step costs, and the proven rates; with --json also what they are."""
    if as_json:
        _list([_method(name, kind) for name, kind in METHODS.items()], as_json)
        return
    heads = ("S", "G", "P", "L", "gap", "violation")
    table = Table("name", "class", "needs", *heads, box=None, pad_edge=False)
    for name, kind in METHODS.items():
        counts = [str(count or "") for count in kind.cost]
        table.add_row(name, kind.__name__, ", ".join(sorted(kind.needs)), *counts, *map(_rate, kind.published))
    Console().print(table)
    print("A step takes S samples, G gradients, P projections and L linear minimisations.")
    print("Gap and violation are proven to fall like these powers of the samples T. --json says more.")


@app.command()
def sets(as_json: Json = False, debug: Debug = False) -> None:
    """The convex sets: what each can do."""
    _list([_set(name, kind) for name, kind in SETS.items()], as_json)


@app.command("datasets")
def list_datasets(as_json: Json = False, debug: Debug = False) -> None:
    """The data that comes with tightrope, and how it is called."""
    functions = {name: getattr(datasets, name) for name in datasets.__all__}
    found = [
        {"name": name, "what": _first_line(value), "arguments": list(inspect.signature(value).parameters)}
        for name, value in functions.items()
        if inspect.isfunction(value)
    ]
    _list(found, as_json)


def _method(name: str, kind: type[Method]) -> dict[str, Any]:
    cost = {unit: count for unit, count in kind.cost._asdict().items() if count}
    rates = {what: str(rate) if rate == float("inf") else rate for what, rate in kind.published._asdict().items()}
    return {
        "name": name,
        "class": kind.__name__,
        "what": _first_line(kind),
        "needs": sorted(kind.needs),
        "cost": cost,
        "published": rates,
        "output": kind.output,
        "tuned": list(kind.tuned),
        "margin": kind.margin,
        "anytime": bool(kind.anytime),
    }


def _rate(p: float | None) -> str:
    """An exponent p of T^-p, in words."""
    return "" if p is None else "zero" if p == float("inf") else f"T^-{Fraction(p).limit_denominator(12)}"


def _set(name: str, kind: type[ConvexSet]) -> dict[str, Any]:
    can = [what for what in ("project", "lmo") if getattr(kind, what) is not getattr(ConvexSet, what)]
    own = any(name in vars(kind) for name in ("has_projection", "cheap_projection"))
    can = ["project (not always, or not cheaply)" if own and what == "project" else what for what in can]
    return {"name": name, "what": _first_line(kind), "can": can}


def _first_line(value: Any) -> str:
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())


def _list(entries: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    table = Table(*entries[0])
    for entry in entries:
        table.add_row(*(_cell(value) for value in entry.values()))
    Console().print(table)


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{count} {_unit(unit, count)}" for unit, count in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)


def _unit(unit: str, count: int) -> str:
    """One gradient, two gradients; the fields of `Cost` are plural."""
    assert unit in Cost._fields
    return unit.removesuffix("s") if count == 1 else unit
