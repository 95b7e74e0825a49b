"""Mangled tables through `fit`, `predict` and `complete`: a sentence, or every cell in its column.

What was read is compared, cell by cell, with what Python's own reader of CSV files finds in the same file. Every table is
read and, as far as its columns go, predicted or taken for ratings; every fiftieth is also fitted or completed.
"""

import csv
import io
import random
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tightrope.learn.tables.classifier import TableClassifier, fit_table
from tightrope.learn.tables.ratings import complete_ratings, read_ratings
from tightrope.learn.tables.reading import MISSING, read_table
from torture.bits import people, ratings
from torture.campaign import campaign, options

ODD = ["", "?", "NaN", "1e999", "-1e999", "0x14", "30%", "n/a", "é", "\x00", "'", '"', '""', "1,5", "01", "1E2", "True",
       " 7 ", "9" * 400, "inf", "None", "\n", "a\nb", "💡", "1_000", "3-", "2020-01-01"]  # fmt: skip


def mangled(text: str, chance: random.Random) -> bytes:
    """The table with one to three things done to it."""
    for _ in range(chance.randint(1, 3)):
        lines = text.split("\n")
        line = chance.randrange(max(1, len(lines) - 1))
        fields = lines[line].split(",")
        field = chance.randrange(len(fields))
        kind = chance.randrange(12)
        if kind == 0:
            fields[field] = chance.choice(ODD)
        elif kind == 1:
            fields.insert(field, chance.choice(ODD))
        elif kind == 2:
            del fields[field]
        elif kind == 3:
            fields[field] = f'"{fields[field]}'
        elif kind == 4:
            fields[field] = f'"{chance.choice(ODD)},{fields[field]}"'
        lines[line] = ",".join(fields)
        if kind == 5:
            lines.insert(line, chance.choice(lines))
        elif kind == 6:
            del lines[line]
        elif kind == 7:
            lines[0] = lines[0].replace(chance.choice(lines[0].split(",")), chance.choice(lines[0].split(",")))
        elif kind == 8:
            lines.insert(line, chance.choice(["", " ", ",", ",,,", "\t"]))
        elif kind == 9:
            lines = [f"{one},{chance.choice(ODD[:8])}" for one in lines]  # longer rows throughout, the header too
        elif kind == 10:
            lines = [lines[0], *(f"{one},x" for one in lines[1:])]  # longer than the header throughout
        text = "\n".join(lines)
        if kind == 11:
            at = chance.randrange(len(text))
            text = text[:at] + chance.choice([",", '"', "\n", "\r", "\ufeff", ";", "\t"]) + text[at:]
    content = text.encode("utf-8" if chance.random() < 0.9 else "latin-1", errors="replace")
    return content.replace(b"\n", b"\r\n") if chance.random() < 0.1 else content


def agrees(cell: Any, text: str) -> bool:
    """Whether a cell is what stands in the file."""
    if pd.isna(cell):
        return text.strip() in MISSING
    if isinstance(cell, str):
        return cell.strip() == text.strip()
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell)).lower() == text.strip().lower()
    return float(cell) == float(text)


def wrong_place(frame: pd.DataFrame, content: bytes) -> str | None:
    """The first cell that another reader finds elsewhere."""
    rows = [
        row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), skipinitialspace=True) if row
    ]
    if len(rows) - 1 != len(frame):
        return f"{len(frame)} rows were read and there are {len(rows) - 1}"
    for i, row in enumerate(rows[1:]):
        if len(row) != len(frame.columns):
            return f"row {i} has {len(row)} fields and was read into {len(frame.columns)} columns"
        for j, text in enumerate(row):
            if not agrees(frame.iat[i, j], text):
                return f"row {i}, column {j} is {frame.iat[i, j]!r} and the file has {text!r}"
    return None


if __name__ == "__main__":
    asked = options(10_000)
    texts = [people().iloc[:80].to_csv(index=False), ratings().iloc[:80].to_csv(index=False)]
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(name) / "table.csv"
        fit_table(people(), "pay", ["sex"], covariance=0.05).save(Path(name) / "model")
        model = TableClassifier.load(Path(name) / "model")

        def use(frame: pd.DataFrame, which: int, whole: bool) -> None:
            """What the commands do with a table."""
            if which == 0:
                model.predict(frame)
                if whole:
                    fit_table(frame, "pay", ["sex"], covariance=0.05)
            else:
                read_ratings(frame, "user", "film", "stars")
                if whole:
                    complete_ratings(
                        frame, "user", "film", "stars", nuclear_norm=20.0, unobserved_energy=40.0, steps=20
                    )

        def attack(k: int) -> str | None:
            """One table."""
            chance = random.Random(k)
            content = mangled(texts[k % 2], chance)
            file.write_bytes(content)
            try:
                frame = read_table(file)
                wrong = wrong_place(frame, content)
                if wrong:
                    return f"table {k}: {wrong}"
                use(frame, k % 2, k % 50 < 2)
            except (ValueError, TypeError) as error:
                own = str(error).strip().endswith((".", "?"))
                return None if own else f"table {k}: no sentence: {error}"
            except Exception as error:  # a traceback is what must not be
                return f"table {k}: {type(error).__name__}: {error}"
            return None

        campaign("mangled tables", asked.count, attack, first=asked.first)
