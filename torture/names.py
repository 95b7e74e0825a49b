"""Groups, labels and constraints with names that look like markup, mathematics, formulas or commands to a terminal.

Every name is shown in a terminal, in HTML, in SVG, in a picture and in a CSV file. What is read back, by a parser of each
that the library does not use, has to be the name, with those characters written out that would act; and nothing else may
have become of it: no tag, no style, no formula. One in 500 also goes through `tightrope fit` and `tightrope predict`.
"""

import csv
import dataclasses
import functools
import io
import json
import random
import re
import tempfile
import unicodedata
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
from matplotlib.text import Text
from rich.console import Console
from typer.testing import CliRunner

import tightrope as tr
from tightrope.__main__ import app
from tightrope.learn.fairness.sensitive import read_sensitive
from tightrope.learn.tables.report import as_table, compare
from tightrope.names import in_csv, in_picture
from tightrope.pages import elements
from tightrope.pages.drawings import curve
from tightrope.plotting import plot_trace
from torture.campaign import PROBLEM, ROWS, campaign, options

PIECES = [
    "[/]", "[/b]", "[bold red]", "[link=x]", "[@click=f]", ":heart:", "\\[",
    "\x1b[31m", "\x1b]8;;x\x07", "\x1b[2J", "\x9b2J", "\x07", "\b", "\r", "\t", "\x7f", "\x00",
    "\u200f", "\u202e", "\u2067", "\u061c", "$", "$x$", "$\\frac", "$\\frac{1}{2}$", "\\$", "^{", "_",
    "<b>", "</td>", "<script>", "&amp;", "&#27;", "&lt", '"', "'", "]]>", "<!--", "-->",
    "=cmd()", "+1", "-1", "@SUM(A1)", "=", "\t=1", "%s", "{0}", "{x!r}",
    "a", "F", "women", "Größe", "عربي", "עברית", " ", "  ", "é", "0", "3.5",
]  # fmt: skip
WHOLE = 500  # one attack in as many goes through the commands, which take seconds
DRAWN = 20  # one in as many is drawn in a whole picture, which takes a fifth of one


def name(chance: random.Random) -> str:
    """A name of one to four pieces."""
    return "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 4)))


def written(called: str) -> str:
    """How a name has to be shown, by the Unicode database: what has no shape of its own is written out."""
    acts = {"Cc", "Cs"}
    turns = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}

    def one(c: str) -> str:
        hidden = c in "\u200e\u200f\u061c" or unicodedata.bidirectional(c) in turns
        return f"\\u{ord(c):04x}" if c != "\n" and (hidden or unicodedata.category(c) in acts) else c

    return "".join(map(one, called))


class _Read(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(f"{tag} {sorted(key for key, _ in attrs)}")

    def handle_data(self, data: str) -> None:
        self.text += data


def _read(made: str) -> _Read:
    found = _Read()
    found.feed(made)
    found.close()
    return found


def wrong_in_terminal(called: str) -> str | None:
    """A sentence where a table of rates shows another name, or steers the terminal."""
    table = compare({"model": [True, False, True, True]}, read_sensitive(["A", "A", called, called], "group"))
    shown = io.StringIO()
    Console(file=shown, width=4000, force_terminal=True, color_system=None).print(as_table(table))
    expected = f"group = {written(called)}"
    said = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue())  # rich's own bold heads
    if re.sub(r"\s+", " ", expected) not in re.sub(r"\s+", " ", said):
        return "the terminal shows another name"
    return "the terminal is steered" if "\x1b" in said or "\r" in said else None


def wrong_in_html(called: str) -> str | None:
    """A sentence where a page reads otherwise than with an innocent name."""

    def page(of: str) -> _Read:
        row = elements.row([elements.cell(of, "words")])
        return _read(elements.page(of, elements.paragraph(of), elements.table((of,), [row], of), elements.link(of, of)))

    found, innocent = page(called), page("x")
    if found.tags != innocent.tags:
        return "a page has other tags"
    return None if written(called) in found.text else "a page shows another name"


def wrong_in_svg(called: str) -> str | None:
    """A sentence where a drawing is no XML, or names something else."""
    drawn = ElementTree.fromstring(curve([1.0, 2.0], [np.array([1.0, 3.0])], called, called))
    named = {"".join(part.itertext()) for part in drawn.iter("text")}
    shown = written(called)
    short = [written(called[:21]) + "…", shown[:21] + "…", shown]
    return None if any(any(one in text for text in named) for one in short) else "a drawing names something else"


def wrong_in_a_picture(called: str, draw: bool) -> str | None:
    """A sentence where the legend of a picture does not have the name, or matplotlib fails at it."""
    labels: list[Any] = [Text(text=in_picture(called))]
    if draw:
        figure = plot_trace(_run_with(called))
        figure.canvas.draw()
        labels = figure.findobj(Text)
    shown = {label._preprocess_math(label.get_text())[0] for label in labels}
    found = any(one.strip().startswith(written(called).strip()) for one in shown)
    return None if found else "the legend of a picture has another name"


@functools.cache
def _run() -> tr.Result:
    return tr.minimize(PROBLEM, ROWS, method="csoa", steps=50, progress=False)


def _run_with(called: str) -> tr.Result:
    """A run whose first constraint has this name."""
    run = _run()
    renamed = {run.constraints.index[0]: called}
    return dataclasses.replace(
        run, constraints=run.constraints.rename(renamed), trace=run.trace.rename(columns=renamed)
    )


def wrong_in_csv(called: str) -> str | None:
    """A sentence where a cell is a formula, or not what was predicted."""
    file = io.StringIO(newline="")
    pd.DataFrame({"prediction": [called, "b"]}).map(in_csv).to_csv(file)
    file.seek(0)
    cell = list(csv.reader(file))[1][1]
    try:
        float(cell)
    except ValueError:
        if cell.lstrip(" ").startswith(tuple("=+-@\t\r")):
            return "a CSV file has a formula"
    return None if cell.removeprefix("'") == written(called).removeprefix("'") else "a CSV file has another label"


def wrong_in_commands(called: str, chance: random.Random) -> str | None:
    """A sentence where `fit` or `predict` fails at a table with such groups, labels and columns."""
    other, column = name(chance), name(chance).replace("\x00", "").strip()
    clean = [one.replace("\x00", "").replace("\r", "").strip() for one in (called, other)]
    if (
        not column
        or column in ("x", "y")
        or not all(clean)
        or len(set(clean)) < 2
        or any(map(_missing, (*clean, column)))
    ):
        return None  # reading a table from a file refuses or changes these, and says so
    random_rows = np.random.default_rng(0)
    group, x = random_rows.choice(clean, 300), random_rows.normal(size=300)
    label = np.where(x + random_rows.normal(size=300) > 0, *clean)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        pd.DataFrame({"x": x, column: group, "y": label}).to_csv(folder / "t.csv", index=False)
        model, table = str(folder / "model"), str(folder / "t.csv")
        fit = [
            "fit",
            table,
            "--label",
            "y",
            "--sensitive",
            column,
            "--out",
            model,
            "--difference",
            "0.9",
            "--judge",
            "holdout",
        ]
        for words in (
            fit,
            [*fit, "--force", "--json"],
            ["predict", model, table],
            ["predict", model, table, "--out", f"{model}.csv"],
        ):
            done = CliRunner().invoke(app, words)
            if done.exit_code:
                return f"{words[0]} ended with {done.exit_code}: {done.output[-300:]!r}"
            if re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2067]", done.output):
                return f"{words[0]} steers the terminal"
            if "--json" in words:
                json.loads(done.stdout)
    return None


def _missing(text: str) -> bool:
    from tightrope.learn.tables.reading import MISSING

    return text in MISSING


def attack(k: int) -> str | None:
    """One name in all places."""
    chance = random.Random(k)
    called = name(chance)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of glyphs that a font does not have
        found = [
            wrong_in_html(called), wrong_in_svg(called), wrong_in_csv(called),
            None if called in ("A", "") else wrong_in_terminal(called),
            wrong_in_a_picture(called, k % DRAWN == 0), wrong_in_commands(called, chance) if k % WHOLE == 7 else None,
        ]  # fmt: skip
    said = next(filter(None, found), None)
    return None if said is None else f"name {k}, {called!r}: {said}"


if __name__ == "__main__":
    asked = options(10_000, workers=1)
    campaign("names", asked.count, attack, 1, first=asked.first)
