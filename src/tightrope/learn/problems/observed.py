"""Partly observed matrices, read and checked: sparse, dense, or as places and values."""

from typing import Any, NamedTuple

import numpy as np

from tightrope._limits import MOST_COORDINATES
from tightrope.given import unmasked
from tightrope.learn.sentences import in_a_sentence


class Observed(NamedTuple):
    """The observed entries of a matrix, as `observed` has read and checked them.

    Example:
        >>> import numpy as np
        >>> from tightrope.learn.problems.observed import observed
        >>> seen = observed(np.array([[5.0, np.nan], [np.nan, 1.0]]))
        >>> seen.shape, seen.values.tolist()
        ((2, 2), [5.0, 1.0])
    """

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    shape: tuple[int, int]


def observed(
    matrix: Any, *, mask: Any = None, shape: tuple[int, int] | None = None, empty: str = "refuse", who: str = ""
) -> Observed:
    """Read a sparse matrix, a dense one with a mask or with NaN, or (rows, columns, values); refuse what makes no sense.

    Args:
        matrix: any of these; an `Observed` was checked when it was made, and is returned as it is.
        mask: for a dense matrix, True where it was observed.
        shape: for (rows, columns, values), the size of the matrix; by default the smallest that holds them.
        empty: "refuse" rows and columns without any observation, or "keep" them; "entries" are not a matrix to complete, and
            may be all of one, or of one place.
        who: whose argument the matrix is, for errors.

    Example:
        >>> import numpy as np
        >>> observed(np.array([[1.0, np.nan], [np.nan, 2.0]])).values.tolist()
        [1.0, 2.0]
    """
    from scipy.sparse import issparse

    if isinstance(matrix, Observed):
        return matrix
    say = who or "structured_completion"
    if issparse(matrix):
        if mask is not None:
            raise ValueError(f"{say}: a sparse matrix and a mask were given; its stored entries are the observed ones.")
        coo = matrix.tocoo()
        found = Observed(coo.row, coo.col, coo.data, coo.shape)
    elif isinstance(matrix, tuple | list) and len(matrix) == 3 and np.ndim(matrix[0]) == 1:
        with in_a_sentence(f"{say}: the matrix", "rows, columns and values as numbers"):
            rows, columns, values = map(np.asarray, matrix)
        found = _from_triplets(say, rows, columns, values, shape)
    else:
        with in_a_sentence(f"{say}: the matrix", "numbers, as many in every row"):
            dense = np.asarray(unmasked(f"{say}: the matrix", matrix))
        found = _from_dense(say, dense, mask)
    _check(say, found, empty)
    return Observed(
        found.rows.astype(np.int64), found.columns.astype(np.int64), found.values.astype(float), found.shape
    )


def _from_triplets(say: str, rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: Any) -> Observed:
    if not (rows.shape == columns.shape == values.shape):
        raise ValueError(
            f"{say}: {len(rows):,} rows, {len(columns):,} columns and {len(values):,} values were given; expected as "
            "many of each."
        )
    for name, places in (("row", rows), ("column", columns)):
        if places.dtype.kind not in "iu":
            raise TypeError(f"{say}: {name} numbers have dtype {places.dtype}; expected whole numbers from 0 on.")
    if len(rows) == 0:
        raise ValueError(f"{say}: no entry was observed; expected at least one.")
    size = (int(rows.max()) + 1, int(columns.max()) + 1) if shape is None else _size(say, shape)
    for name, places, length in (("row", rows, size[0]), ("column", columns, size[1])):
        bad = (places < 0) | (places >= length)
        if bad.any():
            raise ValueError(
                f"{say}: {name} number {int(places[bad][0])} is out of range; expected "
                f"{'0 or more' if shape is None else f'0 to {length - 1}'} ({int(bad.sum()):,} such entries)."
            )
    return Observed(rows, columns, values, size)


def _size(say: str, shape: Any) -> tuple[int, int]:
    if not isinstance(shape, tuple | list) or len(shape) != 2 or not all(_is_whole(n) for n in shape):
        raise ValueError(f"{say}: shape is {shape!r}; expected two whole numbers, rows and columns.")
    return int(shape[0]), int(shape[1])


def _is_whole(n: Any) -> bool:
    if isinstance(n, float | np.floating):
        return float(n).is_integer()
    return isinstance(n, int | np.integer) and not isinstance(n, bool)


def _from_dense(say: str, matrix: np.ndarray, mask: Any) -> Observed:
    if matrix.ndim != 2:
        raise ValueError(
            f"{say}: an array of shape {matrix.shape} was given; expected a sparse matrix, a dense one with a mask or "
            "with NaN, or arrays (rows, columns, values)."
        )
    if matrix.dtype.kind not in "fiub":
        raise TypeError(f"{say}: the matrix has dtype {matrix.dtype}; expected numbers.")
    if mask is None:
        there = ~np.isnan(matrix) if matrix.dtype.kind == "f" else np.ones(matrix.shape, bool)
    else:
        there = np.asarray(mask)
        if there.shape != matrix.shape or there.dtype != bool:
            raise ValueError(
                f"{say}: the mask has shape {there.shape} and dtype {there.dtype}; expected {matrix.shape} and bool."
            )
    rows, columns = np.nonzero(there)
    return Observed(rows, columns, matrix[rows, columns], (matrix.shape[0], matrix.shape[1]))


def _check(say: str, found: Observed, empty: str) -> None:
    (m, n), count = found.shape, len(found.values)
    if max(m, n) > MOST_COORDINATES:
        raise ValueError(
            f"{say}: the matrix has the shape {m:,} x {n:,}; expected at most {MOST_COORDINATES:,} rows and columns, which "
            "are numbered in 32 bits. Number those that occur from 0 on."
        )
    if count == 0:
        raise ValueError(f"{say}: no entry was observed; expected at least one.")
    if found.values.dtype.kind not in "fiub":
        raise TypeError(f"{say}: values have dtype {found.values.dtype}; expected numbers.")
    if not np.all(np.isfinite(found.values)):
        k = int(np.flatnonzero(~np.isfinite(found.values))[0])
        raise ValueError(
            f"{say}: the value at row {found.rows[k]}, column {found.columns[k]} is {found.values[k]}; expected finite "
            "numbers. Leave out what was not observed."
        )
    if empty == "entries":
        return
    ordered = np.sort(found.rows.astype(np.int64) * n + found.columns)
    repeated = ordered[:-1][ordered[1:] == ordered[:-1]]
    if len(repeated):
        first = int(repeated[0])
        raise ValueError(
            f"{say}: the entry at row {first // n}, column {first % n} is given more than once; expected each once. "
            "Average or drop repeated ratings first."
        )
    if count == m * n:
        raise ValueError(
            f"{say}: all {m} x {n} entries are observed, so nothing is left to complete or to bound; expected some to "
            "be missing (a mask, NaN, or a sparse matrix)."
        )
    if empty == "refuse":
        for name, numbers, length in (("row", found.rows, m), ("column", found.columns, n)):
            lacking = np.flatnonzero(np.bincount(numbers, minlength=length) == 0)
            if len(lacking):
                raise ValueError(
                    f"{say}: {name} {lacking[0]} has no observed entry ({len(lacking):,} such {name}s), so nothing can "
                    f'be said about it; drop it, or pass empty="keep" to have zeros there.'
                )
