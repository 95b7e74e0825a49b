"""Rows that are there several times, by oversampling or a join: they are fewer draws than they look, and bounds count draws.

Rows of discrete data repeat themselves, and are draws each. Where a row is there ten times or less on average, the two are
told apart by

- several columns: equal rows are copies where there are far more pairs of them than chance makes, and far more than pairs of
  rows that differ in one column alone, whichever it is. Chance is that of columns independent of each other, each
  repeating itself as among *distinct* rows: a continuous number does not do so there, so one such column is enough;
- one column: how often draws of any discrete law repeat themselves is a mixture of Poisson laws, for which Cauchy-Schwarz
  bounds the factorial moments of the counts, M2^2 <= M1 M3. Copies made as often of every row break it.

A row that makes up a tenth of all (all zeros, say) is common, and is not looked at for this. Where nothing
tells, rows are taken for draws: of one column, copies of rows drawn at random are not seen.
"""

from typing import Any

import numpy as np

_LOSS = 1.1  # times the variance of a mean, by copies as counted: less is not worth a word
_TIMES = 10  # that a row is there on average: discrete beyond, because nobody copies that often
_COMMON = 0.1  # of all rows; with more a row is one that the law itself repeats
_MORE = 10.0  # times as many equal pairs as by chance: columns depend on each other, and one-hot columns do by design
_LOOKS = 32  # columns that are left out in turn; more would only take time
_MOMENTS = 1.1  # by which Cauchy-Schwarz is broken; copies made c times break it by (c - 1)/(c - 2)


def copies(rows: Any) -> np.ndarray | None:
    """The numbers of the first rows of each kind, where others are copies of them; None where rows are draws each.

    A bound that is to hold in both cases, copies or not, is the worse of two: of all rows, and of these. That costs what
    copies are worth, and nothing has to be decided.

    Args:
        rows: n rows with a column for each of several numbers; or a list of such arrays, side by side.

    Example:
        >>> import numpy as np
        >>> from tightrope.confidence import copies
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.normal(size=(100, 2))
        >>> copies(rows) is None, len(copies(np.repeat(rows, 3, axis=0)))
        (True, 100)
        >>> copies(rng.integers(0, 3, size=(100, 2))) is None
        True
    """
    found = _found(rows)
    return None if found is None else np.sort(found[0])


def copied_from(rows: Any) -> np.ndarray | None:
    """For each row the number of the one that it is a copy of, its own where it is a draw; None where all rows are draws.

    Rows that are common stay draws here; for `copies` they are one of each kind, because it is one of two bounds.

    Args:
        rows: as for `copies`.

    Example:
        >>> import numpy as np
        >>> from tightrope.confidence import copied_from
        >>> rows = np.random.default_rng(0).normal(size=(50, 2))
        >>> copied_from(np.repeat(rows, 2, axis=0))[:6].tolist()
        [0, 0, 2, 2, 4, 4]
    """
    found = _found(rows)
    if found is None:
        return None
    first, kind, rare = found
    return np.where(rare[kind], first[kind], np.arange(len(kind)))


def row_codes(rows: Any) -> np.ndarray:
    """A number between 0 and 1 for each row, the same for equal rows and as good as random otherwise.

    `serial_dependence` of them finds rows that are repeated one after the other, also where h is the same for all of them.

    Args:
        rows: as for `copies`.

    Example:
        >>> import numpy as np
        >>> from tightrope.confidence.duplicates import row_codes
        >>> codes = row_codes(np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 2.0]]))
        >>> bool(codes[0] == codes[2]), bool(codes[0] == codes[1])
        (True, False)
    """
    return np.asarray(sum(_words_of(rows))) / 2.0**64


def _words_of(rows: Any) -> list[np.ndarray]:
    """For each column a word for each row."""
    parts = [np.asarray(part) for part in (rows if isinstance(rows, list | tuple) else [rows])]
    columns = [column for part in parts for column in part.reshape(len(part), -1).T]
    factors = np.random.default_rng(0).integers(2**63, size=len(columns), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return [_words(column, factor) for column, factor in zip(columns, factors, strict=True)]


def _found(rows: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Where there are copies: the first row of each kind, the kind of each row, and which kinds are not common."""
    words = _words_of(rows)
    _, first, kind, counts = np.unique(sum(words), return_index=True, return_inverse=True, return_counts=True)
    n = len(kind)
    if np.sum(counts.astype(float) ** 2) < _LOSS * n or n > _TIMES * len(first):
        return None
    rare = counts <= max(_TIMES, _COMMON * n)
    varying = [word[first[rare]] for word in words]
    varying = [word for word in varying if np.any(word != word[0])]
    found = _too_even(counts[rare]) if len(varying) == 1 else _beyond_chance(varying, counts[rare])
    return (first, kind, rare) if found else None


def _words(column: np.ndarray, factor: np.uint64) -> np.ndarray:
    """A number for each value; sums over columns are equal for equal rows and, but for a chance of 2^-64 or so, for these
    alone."""
    words = (column.astype(np.float64) + 0.0).view(np.uint64)  # -0 is 0
    words = (words ^ (words >> np.uint64(32))) * factor
    return (words ^ (words >> np.uint64(29))) * factor


def _pairs(of: np.ndarray) -> float:
    """How many pairs of these are equal."""
    _, counts = np.unique(of, return_counts=True)
    return float(np.sum(counts * (counts - 1.0)) / 2)


def _beyond_chance(columns: list[np.ndarray], counts: np.ndarray) -> bool:
    """Far more equal rows than columns explain one by one, and than rows that are equal but for one column, whichever."""
    distinct, seen = len(counts), float(np.sum(counts * (counts - 1.0)) / 2)
    chance = counts.sum() ** 2 / 2
    for column in columns:
        if seen > _MORE * (1 + chance):
            break
        chance *= _pairs(column) / (distinct * (distinct - 1.0) / 2)
    some, whole = columns[:: -(-len(columns) // _LOOKS)], sum(columns)
    near = min(_pairs(whole - column) for column in some) * len(columns)
    return seen > _MORE * (1 + chance + near)


def _too_even(counts: np.ndarray) -> bool:
    k = counts.astype(float)
    first, second, third = k.sum(), np.sum(k * (k - 1)), np.sum(k * (k - 1) * (k - 2))
    return bool(second**2 > _MOMENTS * first * third)
