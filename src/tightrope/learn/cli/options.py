"""Options that several commands share, the words that some of them take, and those that are parameters of an estimator."""

import functools
import inspect
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class Text(StrEnum):
    """What text becomes: an indicator for each word, or one number a column."""

    indicators = "indicators"
    codes = "codes"


Label = Annotated[str, typer.Option(help="The column to predict; it has two values.")]
Out = Annotated[Path, typer.Option(help="The folder to write the model to.")]
Drop = Annotated[list[str] | None, typer.Option(help="A column to leave out; may be given several times.")]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")]
Force = Annotated[bool, typer.Option("--force", help="Write into a folder that has files.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
TextOption = Annotated[Text, typer.Option(help="What text becomes: indicators, or codes, one number a column.")]

FAIR: Mapping[str, tuple[Any, str]] = {
    "p_rule": (float, "The p%-rule to keep, such as 0.8."),
    "difference": (float, "Or the largest difference of rates, such as 0.05."),
    "covariance": (float, "Or the largest covariance of score and sensitive attribute."),
    "constraint": (str, "How the rule is kept: auto, rates (of groups, smoothed) or covariance."),
    "judge": (str, "Who says that it is kept: cross-fit, or holdout, a part of the rows."),
    "selected": (tuple[float, float], "The smallest and the largest share to select: --selected 0.1 0.3."),
    "notion": (str, "Among whom rates are compared."),
    "confidence": (float, "With which --p-rule is to hold on rows not seen."),
    "radius": (float, "Of the ball that standardised coefficients lie in."),
    "intersections": (bool, "Constrain the groups that several sensitive columns make together, too."),
    "merge_rare": (bool, "Treat groups with too few rows to be judged as one, and say which."),
    "sensitive_kind": (
        list[str],
        "What a sensitive column of numbers is: NAME=categorical or NAME=continuous; several times.",
    ),
    "method": (str, ""),  # `FitCommand` says which there are
}
"""The parameters of `FairLogisticRegression` that are options of `tightrope fit`: of which type, and what they are."""


def taking(parameters: Mapping[str, tuple[Any, str]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each of these, in the place of its `**parameters`: it gets those that were given."""

    def extended(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**words: Any) -> None:
            command(**{name: word for name, word in words.items() if name not in parameters or word not in (None, [])})

        own = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [
            inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=_option(kind, what)
            )
            for name, (kind, what) in parameters.items()
        ]
        required = [p for p in own if p.default is p.empty]
        run.__signature__ = inspect.Signature([*required, *more, *own[len(required) :]])  # pyright: ignore
        return run

    return extended


def _option(kind: Any, what: str) -> Any:
    return Annotated[kind | None, typer.Option(help=what)]
