"""From a table of text and numbers to features: what each column means, and what is wrong with it."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tightrope._errors import whole_number
from tightrope.learn.datasets.features import merge_rare
from tightrope.learn.tables.reading import need_columns, refuse_missing, some_of

MOST_WORDS = 100
"""A text column with more different values than this is taken for an identifier; a guess."""

TEXT = ("indicators", "codes")
"""What text can become."""

ReadParts = Callable[[list[str]], Iterable[pd.DataFrame]]
"""The parts of a table, with the columns named."""

_IDENTIFIER = "Is it an identifier?"
_NUMBERS = {"integer", "floating", "mixed-integer-float", "decimal", "boolean"}


class Column(NamedTuple):
    """A column of the table: a number, or text whose words form groups.

    Attributes:
        name: what the table calls it.
        groups: the words of each group; None for a number.
        coded: whether text is one feature, the place of its group, instead of an indicator for each group.
    """

    name: str
    groups: tuple[tuple[str, ...], ...] | None = None
    coded: bool = False

    @property
    def indicators(self) -> tuple[tuple[str, ...], ...]:
        """The groups that have an indicator: of two, the second says it all; one says nothing."""
        groups = self.groups or ()
        return groups if len(groups) > 2 else groups[1:]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features that the column becomes."""
        if self.groups is None or self.coded:
            return (self.name,)
        return tuple(f"{self.name}={'+'.join(group)}" for group in self.indicators)


class TableEncoder:
    """Numbers as they are, text as indicators of its words, the rare ones merged; columns and words are remembered.

    An indicator of a handful of rows makes a covariance constraint meaningless: its coefficient can cancel the covariance
    of all other rows. The rarest words of a column are therefore merged, and named together, until every indicator has
    `min_count` rows. A column left with two groups has one indicator, and none if it is left with one.

    Args:
        min_count: how many of the rows counted an indicator has at least. By default 100 or 0.5 % of them, whichever is
            less, but at least 2.
        text: "indicators"; or "codes", where text becomes one number, its place in the sorted list of words, and nothing
            is merged. A code has no meaning of its own and predicts worse, but leaves less of what text says about a
            sensitive attribute.

    Attributes:
        columns: what is known of each column, in order.
        names: the names of the features.

    Example:
        >>> import pandas as pd
        >>> people = pd.DataFrame({"age": [31, 52, 40, 28], "job": ["cook", "clerk", "cook", "clerk"]})
        >>> encoder = TableEncoder().fit(people)
        >>> encoder.names
        ('age', 'job=cook')
        >>> encoder.transform(people)["job=cook"].tolist()
        [1.0, 0.0, 1.0, 0.0]
        >>> TableEncoder.from_dict(encoder.to_dict()).names == encoder.names
        True
    """

    def __init__(self, min_count: int | None = None, text: str = "indicators"):
        if text not in TEXT:
            raise ValueError(f"text is {text!r}; expected {' or '.join(map(repr, TEXT))}.")
        self.text = text
        self.min_count = None if min_count is None else whole_number("TableEncoder", "min_count", min_count)
        self.columns: tuple[Column, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all features, in the order of the columns of `transform`."""
        return tuple(name for column in self.columns for name in column.features)

    def fit(
        self, frame: pd.DataFrame, fit_on: Sequence[int] | np.ndarray | None = None, parts: ReadParts | None = None
    ) -> "TableEncoder":
        """Learn the columns and their words.

        Args:
            frame: the table. The words of all its rows are known afterwards.
            fit_on: the numbers of the rows that are counted, those for training; all, if not given.
            parts: where `frame` was drawn from a larger table, what gives the parts of that table with some of its columns.
                Their words are known afterwards, too.
        """
        _check_frame(frame)
        refuse_missing(frame, list(frame.columns))
        counted = np.zeros(len(frame), bool)
        counted[np.arange(len(frame)) if fit_on is None else np.asarray(fit_on)] = True
        found, total = [_Found(str(name)) for name in frame.columns], int(counted.sum())
        for column in found:
            column.add(frame[column.name], counted)
        words = [column for column in found if not column.numbers]
        for part in parts([column.name for column in words]) if parts and words else ():
            for column in words:
                column.add(part[column.name].dropna(), np.array([], int))
        least = max(2, min(100, -(-total // 200))) if self.min_count is None else self.min_count
        if least > total:
            raise ValueError(
                f"TableEncoder: min_count is {least:,} and {total:,} rows are counted, so that no word is frequent "
                "enough; give more rows, or a smaller min_count."
            )
        columns = tuple(column.read(least, self.text == "codes") for column in found)
        names = [name for column in columns for name in column.features]
        if not names:
            raise ValueError(
                "Nothing is left to learn from: every column is text with one frequent value. Give more columns or rows."
            )
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"Two features would be called {twice!r}; rename a column of the table.")
        self.columns = columns
        return self

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The features of a table that has the same columns, in any order and among others; float64."""
        if not self.columns:
            raise ValueError("This TableEncoder has not seen a table yet; call fit first.")
        needed = [column.name for column in self.columns]
        need_columns(frame, needed)
        refuse_missing(frame, needed)
        arrays = [array for column in self.columns for array in _encode(column, frame[column.name])]
        return pd.DataFrame(np.column_stack(arrays), index=frame.index, columns=list(self.names))

    def to_dict(self) -> dict[str, Any]:
        """The encoder as numbers, text, lists and dictionaries, which JSON can hold; `from_dict` reads it."""
        return {"min_count": self.min_count, "text": self.text, "columns": [c._asdict() for c in self.columns]}

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> "TableEncoder":
        """The encoder that `to_dict` described."""
        try:
            encoder = cls(about["min_count"], about["text"])
            encoder.columns = tuple(
                Column(c["name"], None if c["groups"] is None else tuple(map(tuple, c["groups"])), c["coded"])
                for c in about["columns"]
            )
        except (KeyError, TypeError) as error:
            raise ValueError("This is no description of a TableEncoder; expected what its to_dict gives.") from error
        return encoder


def _check_frame(frame: pd.DataFrame) -> None:
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"TableEncoder: a {type(frame).__name__} was given; expected a pandas DataFrame.")
    if not len(frame) or not len(frame.columns):
        raise ValueError(
            f"TableEncoder: the table has {len(frame):,} rows and {len(frame.columns)} columns for features; expected some "
            "of both."
        )
    twice = [str(name) for name in frame.columns[frame.columns.duplicated()]]
    if twice:
        raise ValueError(f"The table has more than one column {twice[0]!r}; expected a different name for each.")
    strange = [name for name in frame.columns if not isinstance(name, str)]
    if strange:
        raise TypeError(
            f"The table has a column named {strange[0]!r}, which is not text; rename it: frame.columns.map(str)."
        )


class _Found:
    """What is known of a column so far: that it holds numbers, or its words, how often each is there and is counted."""

    def __init__(self, name: str):
        self.name, self.numbers = name, True
        self.there: Counter[str] = Counter()
        self.counted: Counter[str] = Counter()

    def add(self, values: "pd.Series[Any]", counted: np.ndarray) -> None:
        """More rows."""
        if not self.there and self.numbers and _holds_numbers(values):
            _numbers(values)
            return
        self.numbers = False
        if pd.api.types.is_datetime64_any_dtype(values.dtype) or pd.api.types.is_timedelta64_dtype(values.dtype):
            raise ValueError(
                f"{self.name} holds dates or times; expected numbers or text. Turn it into numbers, such as years, or leave "
                "it out (--drop)."
            )
        words, codes = np.unique(values.astype(str).to_numpy(str), return_inverse=True)
        for tally, rows in ((self.there, codes), (self.counted, codes[counted])):
            tally.update(dict(zip(words.tolist(), np.bincount(rows, minlength=len(words)).tolist(), strict=True)))
        if len(self.there) > MOST_WORDS:
            self._refuse_many()

    def read(self, least: int, coded: bool) -> Column:
        """The column."""
        if self.numbers:
            return Column(self.name)
        words = sorted(self.there)
        odd = self._odd()
        if odd:
            warnings.warn(f"{odd} All its values were taken for words.", stacklevel=4)
        if coded:
            return Column(self.name, tuple((word,) for word in words), coded)
        groups = merge_rare(np.array([self.counted[word] for word in words]), least)
        return Column(self.name, tuple(tuple(words[code] for code in group) for group in groups))

    def _refuse_many(self) -> None:
        raise ValueError(
            f"{self.name} is text with {len(self.there):,} different values; expected at most {MOST_WORDS}. "
            f"{self._odd() or _IDENTIFIER} Leave it out (--drop), or merge its values into fewer."
        )

    def _odd(self) -> str:
        words = np.array(sorted(self.there))
        return _odd_cells(self.name, words, np.array([self.there[word] for word in words]))


def _odd_cells(name: str, words: np.ndarray, times: np.ndarray) -> str:
    """A sentence about the cells that make text of a column in which most are numbers; empty where that is not so."""
    number = ~np.isnan(pd.to_numeric(pd.Series(words), errors="coerce").to_numpy(np.float64))
    rows, total = int(times[number].sum()), int(times.sum())
    if number.all() or 2 * rows <= total:
        return ""
    some = some_of([repr(str(word)) for word in words[~number]], 3)
    return f"{name} is a number in {rows:,} of {total:,} rows and not in the others ({some}): correct these cells?"


def _encode(column: Column, values: "pd.Series[Any]") -> list[np.ndarray]:
    """The features of a column, an array for each."""
    if column.groups is None:
        return [_numbers(values)]
    words = values.astype(str).to_numpy(str)
    known = [word for group in column.groups for word in group]
    strange = ~np.isin(words, known)
    if strange.any():
        found = some_of([repr(str(word)) for word in np.unique(words[strange])], 5)
        raise ValueError(
            f"{column.name} has values that were not there when the classifier was fitted: {found}, in "
            f"{int(strange.sum()):,} of {len(words):,} rows. Replace them by known ones ({some_of(known, 5)}), leave "
            "these rows out, or fit again with rows that have them."
        )
    if column.coded:
        return [np.searchsorted(np.array(known), words).astype(float)]  # they are sorted
    return [np.isin(words, group).astype(float) for group in column.indicators]


def _holds_numbers(values: "pd.Series[Any]") -> bool:
    if pd.api.types.is_numeric_dtype(values.dtype):  # booleans are
        return True
    return values.dtype == object and pd.api.types.infer_dtype(values) in _NUMBERS


def _numbers(values: "pd.Series[Any]") -> np.ndarray:
    """A column as float64; refuses text and what is infinite."""
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "fiub":
        plain, numbers = values, values.to_numpy(np.float64)
    else:
        plain = values.astype(object)  # categories that are numbers become numbers only by way of objects
        numbers = pd.to_numeric(plain, errors="coerce").to_numpy(np.float64)
    strange = plain[np.isnan(numbers)].unique()
    if len(strange):
        some = ", ".join(repr(word) for word in strange[:3])
        raise ValueError(
            f"{values.name} was a number when the classifier was fitted and is now text in {int(np.isnan(numbers).sum()):,} "
            f"of {len(plain):,} rows, such as {some}; expected numbers. Correct these rows or leave them out."
        )
    infinite = int(np.isinf(numbers).sum())
    if infinite:
        raise ValueError(f"{values.name} has {infinite:,} infinite values; expected finite numbers.")
    return numbers
