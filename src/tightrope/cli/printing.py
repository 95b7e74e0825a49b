"""What the commands print: sentences, tables, and a moving line while they work."""

import contextlib
import io
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from tightrope._compilation_cache import mended

if TYPE_CHECKING:
    from tightrope.tables.classifier import Fitted
    from tightrope.tables.ratings import CompletedRatings


def say(sentence: str, style: str | None = None) -> None:
    """Print a sentence on stderr as it is: no line breaks and no markup are made of it."""
    Console(stderr=True).print(sentence, style=style, markup=False, highlight=False, soft_wrap=True)


def say_notes(notes: Sequence[str]) -> None:
    """Print what else there is to know, on stderr."""
    for note in notes:
        say(f"Note: {note}", "yellow")


def print_table(table: Table, *, whole: bool = False, stderr: bool = False) -> None:
    """Print a table, cut to the screen.

    Args:
        table: what to print.
        whole: make it as wide as it needs to be where nobody watches, such as in a file.
        stderr: print on stderr instead of stdout.
    """
    console = Console(stderr=stderr)
    width = max(console.measure(table).maximum, console.width) if whole and not console.is_terminal else None
    console.print(table, width=width)


def print_report(made: "Fitted | CompletedRatings", notes: Sequence[str]) -> None:
    """Print what was made, in sentences, how it compares on held-out data, and the notes."""
    from tightrope.tables.report import as_table

    for line in made.lines():
        print(line)
    print_table(as_table(made.comparison), whole=True)
    say_notes(notes)


def print_written(folder: Path, files: Sequence[str]) -> None:
    """Print which files are in the folder now, and why there is no picture if there is none."""
    if not any(name.endswith(".png") for name in files):
        say_notes(["there is no picture, because matplotlib is not installed: pip install 'tightrope[plot]'."])
    print(f"Written to {folder}: {', '.join(files)}.")


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
    """Show a moving line while somebody watches, instead of the bars of single runs."""
    with contextlib.ExitStack() as stack:
        if Console(stderr=True).is_terminal:
            stack.enter_context(Console(file=sys.stderr).status(words))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        yield
