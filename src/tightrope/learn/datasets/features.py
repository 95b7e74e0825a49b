"""Numbers from the Adult table: two treatments of its columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tightrope._errors import whole_number
from tightrope.learn.datasets.adult import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

LABEL_ENCODED = tuple(name for name in COLUMNS if name not in ("sex", "income"))
"""The features of `label_encoded`: every column but the sensitive attribute and the label."""

TEXT = ("workclass", "education", "marital-status", "occupation", "relationship", "race", "native-country")
NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
ONE_HOT = tuple(name for name in TEXT if name != "race")

_SCHOOL_YEARS: dict[str, str] = {
    **dict.fromkeys(("Preschool", "1st-4th", "5th-6th", "7th-8th"), "Preschool-8th"),
    **dict.fromkeys(("9th", "10th", "11th", "12th"), "9th-12th"),
}


class Features(NamedTuple):
    """A table as numbers: features X, labels y in {-1, +1}, sensitive s in {0, 1}, and the names of X's columns.

    Example:
        >>> from tightrope.datasets import label_encoded, load_adult
        >>> features = label_encoded(load_adult().head(100))
        >>> features.X.shape, sorted(set(features.y.tolist())), len(features.names)
        ((100, 14), [-1.0, 1.0], 14)
    """

    X: np.ndarray
    y: np.ndarray
    s: np.ndarray
    names: tuple[str, ...]


def label_encoded(frame: "pd.DataFrame", fit_on: Sequence[int] | np.ndarray | None = None) -> Features:
    """The table with words numbered: 13 standardised columns, all but sex and income, and an intercept as the last one.

    A word becomes its place in the sorted list of the column's words.

    Args:
        frame: rows of `load_adult()`.
        fit_on: the numbers of the rows (or a mask) whose mean and deviation count, those for training; all, if not given.

    Example:
        >>> from tightrope.datasets import load_adult
        >>> X, y, s, names = label_encoded(load_adult())
        >>> X.shape, names[1], names[-1]
        ((45222, 14), 'workclass', 'intercept')
        >>> round(float(s.mean()), 3)  # men
        0.675
    """
    y, s = _labels("label_encoded", frame, LABEL_ENCODED)
    rows = _fit_rows("label_encoded", len(frame), fit_on)
    columns = [
        _codes(frame[name])[0] if name in TEXT else _number("label_encoded", frame[name]) for name in LABEL_ENCODED
    ]
    X = _standardised(np.column_stack(columns), rows)
    return Features(np.column_stack([X, np.ones(len(frame))]), y, s, (*LABEL_ENCODED, "intercept"))


def one_hot(frame: "pd.DataFrame", min_count: int = 100, fit_on: Sequence[int] | np.ndarray | None = None) -> Features:
    """The table with an indicator for each word, as Zafar et al. (2017) prepare it, and an intercept as the last column.

    Sex, race and fnlwgt are left out and numbers are standardised. School years up to the 8th are one word, and those from
    the 9th to the 12th another; the country is the United States or not.

    An indicator of a handful of rows makes a covariance constraint meaningless: its weight can cancel the covariance of
    all other rows at next to no loss. The rarest words of a column are therefore merged, and named together, until every
    indicator has `min_count` rows. A column left with two words has one indicator, and none if it is left with one.

    Args:
        frame: rows of `load_adult()`.
        min_count: how many of the rows counted an indicator has at least; 1 merges nothing that occurs.
        fit_on: the numbers of the rows (or a mask) that are counted and standardised by; all, if not given.

    Example:
        >>> from tightrope.datasets import load_adult
        >>> X, y, s, names = one_hot(load_adult())
        >>> X.shape, names[5:7]
        ((45222, 48), ('workclass=Federal-gov+Without-pay', 'workclass=Local-gov'))
        >>> one_hot(load_adult(), min_count=1).X.shape
        (45222, 51)
    """
    y, s = _labels("one_hot", frame, NUMBERS + ONE_HOT)
    rows = _fit_rows("one_hot", len(frame), fit_on)
    if whole_number("one_hot", "min_count", min_count) > len(rows):
        raise ValueError(
            f"one_hot: min_count is {min_count:,} and only {len(rows):,} rows are counted, so that no word is frequent "
            f"enough; give more rows, or a smaller min_count."
        )
    columns = [_standardised(np.column_stack([_number("one_hot", frame[name]) for name in NUMBERS]), rows)]
    names: list[str] = list(NUMBERS)
    for name in ONE_HOT:
        codes, words = _codes(_coarser(frame[name]))
        groups = merge_rare(np.bincount(codes[rows], minlength=len(words)), min_count)
        for group in groups if len(groups) > 2 else groups[1:]:
            columns.append(np.isin(codes, group).astype(float)[:, None])
            names.append(f"{name}={'+'.join(words[code] for code in group)}")
    return Features(np.hstack([*columns, np.ones((len(frame), 1))]), y, s, (*names, "intercept"))


def _labels(owner: str, frame: "pd.DataFrame", columns: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """y and s, once the frame was found to have the columns that are needed, without missing values."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise TypeError(
            f"{owner}: a {type(frame).__name__} was given; expected a DataFrame such as load_adult() returns."
        )
    columns = (*columns, "sex", "income")
    absent = [name for name in columns if name not in frame]
    if absent:
        raise ValueError(f"{owner}: the frame has no column {', '.join(absent)}; expected those of load_adult().")
    if frame.empty:
        raise ValueError(f"{owner}: the frame has no rows.")
    missing = int(frame[list(columns)].isna().any(axis=1).sum())
    if missing:
        raise ValueError(
            f"{owner}: {missing:,} of {len(frame):,} rows have missing values; drop them, as load_adult(dropna=True) does."
        )
    income = _is_second(owner, frame, "income", ("<=50K", ">50K"))
    return 2 * income - 1, _is_second(owner, frame, "sex", ("Female", "Male"))


def _is_second(owner: str, frame: "pd.DataFrame", name: str, words: tuple[str, str]) -> np.ndarray:
    values = frame[name].astype(str).to_numpy(object)
    strange = set(values) - set(words)
    if strange:
        raise ValueError(f"{owner}: {name} has the value {min(strange)!r}; expected {words[0]!r} or {words[1]!r}.")
    return (values == words[1]).astype(float)


def _fit_rows(owner: str, n: int, fit_on: Sequence[int] | np.ndarray | None) -> np.ndarray:
    """The numbers of the rows that `fit_on` selects: all of them for None."""
    rows = np.arange(n) if fit_on is None else np.asarray(fit_on)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer) or not len(rows):
        raise ValueError(f"{owner}: fit_on is neither a list of row numbers nor a mask of {n:,} values, or has no row.")
    if rows.min() < 0 or rows.max() >= n:
        raise ValueError(f"{owner}: fit_on has row numbers outside 0 to {n - 1:,}.")
    return rows


def _number(owner: str, column: "pd.Series") -> np.ndarray:
    try:
        values = column.to_numpy(float)
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if not np.all(np.isfinite(values)):
        raise ValueError(
            f"{owner}: {column.name} has values that are not finite numbers; expected those of load_adult()."
        )
    return values


def _codes(column: "pd.Series") -> tuple[np.ndarray, list[str]]:
    """Each value's place in the sorted list of words, and that list.

    The list of a categorical column has all its categories, also those that occur in no row.
    """
    import pandas as pd

    known = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column.unique()
    words = sorted(map(str, known))
    return pd.Categorical(column.astype(str), categories=words).codes.astype(np.int64), words


def _coarser(column: "pd.Series") -> "pd.Series":
    """Education and country with fewer words; other columns as they are."""
    if column.name == "education":
        return column.astype(str).map(lambda word: _SCHOOL_YEARS.get(str(word), word))
    if column.name == "native-country":
        return column.astype(str).where(column.astype(str) == "United-States", "Other")
    return column


def merge_rare(counts: np.ndarray, min_count: int) -> list[list[int]]:
    """Which words share an indicator: the rare ones together, and every other word by itself.

    Words with fewer than `min_count` rows form one group; it takes in the next rarest words until it has `min_count` rows.

    Args:
        counts: how many rows each word has.
        min_count: how many rows a group should have.

    Example:
        >>> merge_rare(np.array([500, 3, 40, 80]), min_count=50)
        [[0], [1, 2, 3]]
    """
    rarest = np.argsort(counts, kind="stable")
    few = int(np.sum(counts < min_count))
    while 0 < few < len(counts) and counts[rarest[:few]].sum() < min_count:
        few += 1
    groups = [[int(code)] for code in rarest[few:]] + ([sorted(rarest[:few].tolist())] if few else [])
    return sorted(groups)


def _standardised(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Mean 0 and deviation 1 over the rows given; a column that is constant there is only centred."""
    fit = X[rows]
    return (X - fit.mean(axis=0)) / np.where(np.ptp(fit, axis=0) > 0, fit.std(axis=0), 1.0)
