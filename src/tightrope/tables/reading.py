"""Tables in files: reading one, and refusing columns that are not there and values that are missing."""

import difflib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from tightrope.files import FileError

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""What stands for a missing value in a text file. "None" and "?" are words like any other."""


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
    if frame.empty:
        raise FileError(f"{path} has {len(frame.columns)} columns and no rows; expected at least one row.")
    return frame


def _read_text(path: Path, separator: str) -> pd.DataFrame:
    return pd.read_csv(
        path, sep=separator, skipinitialspace=True, keep_default_na=False, na_values=list(MISSING), low_memory=False,
        encoding="utf-8-sig",
    )  # fmt: skip


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        import pyarrow  # noqa: F401 (pandas would name another package as well)
    except ImportError as error:
        raise FileError(
            f"{path} is a Parquet file, and reading it needs pyarrow: pip install 'tightrope[parquet]', or give a CSV file."
        ) from error
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


def features_and_used(
    frame: pd.DataFrame,
    label: str,
    others: Sequence[str],
    drop: Sequence[str],
    as_features: bool,
    *,
    role: str,
    called: str,
) -> tuple[list[str], list[str]]:
    """The columns that are features, and all that are used; refuses names that are not there or have two meanings.

    Args:
        frame: the table.
        label, others, drop: the column to predict, those with another role, and those to leave out.
        as_features: whether those with another role are features as well.
        role, called: that role, and these columns, in a sentence.
    """
    need_columns(frame, [label, *others, *drop])
    both = [name for name in (label, *others) if name in drop or (name == label and name in others)]
    if both:
        raise ValueError(f"{both[0]!r} was given twice, with different meanings; expected label, {role} or drop.")
    left_out = {label, *drop, *(() if as_features else others)}
    features = [str(name) for name in frame.columns if name not in left_out]
    if not features:
        raise ValueError(f"No column is left to learn from, besides the label, {called} and those to drop.")
    return features, [*dict.fromkeys([*features, *others, label])]
