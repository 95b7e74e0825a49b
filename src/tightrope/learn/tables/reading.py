"""Tables in files: reading one, and refusing columns that are not there and values that are missing."""

import csv
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tightrope.files import FileError
from tightrope.learn.drawn import Drawn, drawn, numbers_drawn, parts_of
from tightrope.sampling.parquet_files import Files

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""What stands for a missing value in a text file. "None" and "?" are words like any other."""

_CODES = r"[+-]?(0\d+|\d+[eE]\d+|\d{19,})"
"""What looks like a number and is more likely a code, since as a number it would be written otherwise: 01, 1E2, or too
long to be told from its neighbours. A column that has one stays text, so that no two codes become one number."""

_BOOLEANS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table from a file, by its suffix: .csv (commas), .tsv (tabs) or .parquet.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "people.csv"
        ...     _ = path.write_text("age,sex\\n31,F\\n52,M\\n")
        ...     read_table(path).shape
        (2, 2)
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".parquet"):
        raise FileError(f"{path} ends in {suffix or 'nothing'!r}; expected a table in .csv, .tsv or .parquet.")
    if not path.is_file():
        raise FileError(f"{path} is {'a folder' if path.is_dir() else 'not there'}; expected a file with a table.")
    try:
        frame = _read_parquet(path) if suffix == ".parquet" else _read_text(path, "," if suffix == ".csv" else "\t")
    except (OSError, ValueError) as error:  # what pandas and pyarrow raise for broken files are ValueErrors
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path} cannot be read as {suffix}: {str(error).strip().rstrip('.')}.") from error
    frame.columns = [str(name).strip() for name in frame.columns]
    _refuse_twice(path, list(frame.columns))
    if frame.empty:
        raise FileError(f"{path} has {len(frame.columns)} columns and no rows; expected at least one row.")
    return frame


def read_rows(path: Path, seed: int) -> Drawn:
    """The rows of a table in one file, or of a folder of Parquet files, of which they are drawn where there are many."""
    if path.is_dir():
        return drawn(path, seed)
    frame = read_table(path)
    return Drawn(frame, len(frame))


class TableParts(NamedTuple):
    """A table in parts, whose index numbers the rows from 0; which of them are to be measured, and how many there are."""

    frames: Iterable[pd.DataFrame]
    measured: np.ndarray
    rows: int


def read_parts(path: Path, columns: Sequence[str]) -> TableParts:
    """A table in one file, or a folder of Parquet files of which those of these columns are read that it has."""
    if not path.is_dir():
        frame = read_table(path)
        return TableParts([frame], np.arange(len(frame)), len(frame))
    files = Files(path)
    there = [name for name in files.columns if name in columns]
    return TableParts(parts_of(files, there), numbers_drawn(files.n, seed=0), files.n)


def left_out(dropped: int, rows: int) -> list[str]:
    """A note on rows with missing values that were left out; refuses where none is left."""
    if dropped == rows:
        raise ValueError(
            "Every row has missing values, so that none is left; leave columns out (--drop), or fill them in."
        )
    return [f"{dropped:,} of {rows:,} rows with missing values were left out."] if dropped else []


def _read_text(path: Path, separator: str) -> pd.DataFrame:
    """Text, with columns of numbers and of True and False turned into these."""
    _refuse_ragged(path, separator)
    frame = pd.read_csv(
        path, sep=separator, skipinitialspace=True, keep_default_na=False, na_values=list(MISSING), dtype=str,
        index_col=False, encoding="utf-8-sig",
    )  # fmt: skip
    return frame.apply(_typed) if len(frame) else frame


def _refuse_ragged(path: Path, separator: str) -> None:
    """Refuse rows that are longer or shorter than the header: which of their fields belongs to which column?"""
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, delimiter=separator, skipinitialspace=True)
        try:
            header = next((row for row in reader if row), [])
            _refuse_twice(path, [name.strip() for name in header])
            for row in reader:
                if any("\0" in field for field in row):  # pandas would end the field there
                    raise FileError(f"{path}, line {reader.line_num:,}, has a NUL character; expected text. Remove it.")
                if row and len(row) != len(header):
                    raise FileError(
                        f"{path}, line {reader.line_num:,}, has {len(row)} field{'s' * (len(row) > 1)} and the header has "
                        f"{len(header)}; expected as many. Correct this line: is a separator missing, or one too many?"
                    )
        except csv.Error as error:
            raise FileError(f"{path}, line {reader.line_num:,}, cannot be read: {error}.") from error


def _refuse_twice(path: Path, names: Sequence[str]) -> None:
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        places = some_of([str(k) for k, name in enumerate(names, 1) if name == twice], 5)
        raise FileError(f"{path} has more than one column {twice!r} (numbers {places}); expected a name for each.")


def _typed(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """A column of text as numbers or as True and False, where every cell is one."""
    words = pd.Series(column.dropna().unique())
    if len(words) and words.isin(list(_BOOLEANS)).all():
        return column.map(_BOOLEANS)
    numbers = pd.to_numeric(words, errors="coerce")
    if numbers.isna().any() or words.astype(str).str.fullmatch(_CODES).any():
        return column
    if numbers.dtype.kind != "f":
        return pd.to_numeric(column)
    return column.map(float, na_action="ignore").astype(float)  # to the last digit, which pandas may miss


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        from pyarrow import parquet  # pandas would name another package as well
    except ImportError as error:
        raise FileError(
            f"{path} is a Parquet file, and reading it needs pyarrow: pip install 'tightrope[parquet]', or give a CSV file."
        ) from error
    _refuse_twice(path, parquet.read_schema(path).names)  # pyarrow would list what it looked for among what
    return pd.read_parquet(path, engine="pyarrow")


def need_columns(frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Refuse names that the table has no column of, with the nearest one it has."""
    absent = [name for name in names if name not in frame.columns]
    if not absent:
        return
    there = {str(name).lower(): str(name) for name in frame.columns}
    near = difflib.get_close_matches(absent[0].lower(), there, 1, 0.5)
    advice = f"Did you mean {there[near[0]]!r}?" if near else f"It has {some_of(list(there.values()), 20)}."
    raise ValueError(f"The table has no column {', '.join(map(repr, absent))}. {advice}")


def refuse_missing(frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Refuse missing values in the columns given, and say where they are."""
    counts = frame[list(names)].isna().sum()
    counts = counts[counts > 0]
    if counts.empty:
        return
    said = some_of([f"{name} ({count:,})" for name, count in counts.items()], 8)
    rows = int(frame[list(names)].isna().any(axis=1).sum())
    raise ValueError(
        f"{rows:,} of {len(frame):,} rows have missing values, in {said}; expected none. Drop these rows "
        "(--drop-missing on the command line), leave the columns out (--drop), or fill them in."
    )


def some_of(words: Sequence[str], most: int) -> str:
    """The first words of a list for a sentence, and dots where there are more."""
    return ", ".join(words[:most]) + (", ..." if len(words) > most else "")
