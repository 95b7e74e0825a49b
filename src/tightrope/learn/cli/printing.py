"""What the commands print: sentences, tables, and a moving line while they work."""

import contextlib
import dataclasses
import io
import json
import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from tightrope._compilation_cache import mended
from tightrope.names import in_terminal, visible

if TYPE_CHECKING:
    from tightrope.learn.tables.classifier import Fitted
    from tightrope.learn.tables.constrained import Classified
    from tightrope.learn.tables.ratings import CompletedRatings


def say(sentence: str, style: str | None = None) -> None:
    """Print a sentence on stderr: wrapped at words on a screen, as it is elsewhere; no markup is made of it."""
    _print(Console(stderr=True), sentence, style)


def _print(console: Console, sentence: str, style: str | None = None) -> None:
    console.print(in_terminal(sentence), style=style, highlight=False, soft_wrap=not console.is_terminal)


def say_notes(notes: Sequence[str]) -> None:
    """Print what else there is to know, on stderr."""
    for note in notes:
        say(f"Note: {note}", "yellow")


def print_table(table: Table, *, whole: bool = False, stderr: bool = False) -> None:
    """Print a table, cut to the screen.

    Args:
        table: what to print.
        whole: make it as wide as it needs to be where the output is no terminal, such as in a file.
        stderr: print on stderr instead of stdout.
    """
    console = Console(stderr=stderr)
    width = max(console.measure(table).maximum, console.width) if whole and not console.is_terminal else None
    console.print(table, width=width)


def print_made(
    made: "Fitted | Classified | CompletedRatings", notes: Sequence[str], folder: Path, as_json: bool
) -> None:
    """Write what was made into its folder, and print it: for people, or as one JSON object.

    For people these are sentences, how it compares on held-out data where there is something to compare with, the notes,
    and which files were written.
    """
    from tightrope.learn.tables.report import as_table

    comparison = getattr(made, "comparison", None)
    if as_json:
        said: dict[str, Any] = {"says": made.lines()}
        if comparison is None:
            said["certificate"] = dataclasses.asdict(made.model.classifier.certificate_)  # pyright: ignore
        else:
            said["comparison"] = comparison.to_dict("records")
        said |= {"notes": list(notes), "folder": str(folder), "files": made.save(folder, notes)}
        print(visible(json.dumps(_finite(said), indent=2, ensure_ascii=False)))  # which JSON writes alike
        return
    for line in made.lines():
        _print(Console(), line)
    if comparison is not None:
        print_table(as_table(comparison), whole=True)
    say_notes(notes)
    print_written(folder, made.save(folder, notes))


def _finite(value: Any) -> Any:
    """The same without NaN and infinities, which JSON does not know: None stands for them."""
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_written(folder: Path, files: Sequence[str]) -> None:
    """Print which files are in the folder now, and why there is no picture if there is none."""
    if not any(name.endswith(".png") for name in files):
        say_notes(["there is no picture, because matplotlib is not installed: pip install 'tightrope[plot]'."])
    print(visible(f"Written to {folder}: {', '.join(files)}."))


@contextlib.contextmanager
def noted(notes: list[str]) -> Iterator[None]:
    """Add the warnings of the library to the notes, each of them once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            said = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
            notes += [sentence for sentence in said if not mended(sentence)]


@contextlib.contextmanager
def busy(words: str) -> Iterator[None]:
    """Show a moving line on a terminal, instead of the bars of single runs."""
    with contextlib.ExitStack() as stack:
        if Console(stderr=True).is_terminal:
            stack.enter_context(Console(file=sys.stderr).status(words))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        yield
