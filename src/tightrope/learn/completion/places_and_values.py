"""Ratings as places and values: read from any kind of matrix, and joined with those seen before."""

import warnings
from typing import Any

import numpy as np

from tightrope.given import unmasked
from tightrope.learn.problems.observed import Observed, observed
from tightrope.learn.sentences import in_a_sentence

NAME = "StructuredMatrixCompletion"
"""The estimator's name, with which its refusals begin."""


def read(X: Any) -> Observed:
    """Places and values of a matrix or (rows, columns, values), of which nothing needs to be missing."""
    return observed(plain(X), empty="entries", who=NAME)


def joined(before: Observed, new: Observed) -> Observed:
    """All entries, the new ones in the place of older ones; the matrix grows to hold them."""
    places = np.array([new.rows, new.columns])
    height, width = (int(max(n)) for n in zip(before.shape, new.shape, places.max(axis=1) + 1, strict=True))
    fresh = new.rows * width + new.columns
    kept = ~np.isin(before.rows * width + before.columns, fresh)
    parts = [np.concatenate([old[kept], added]) for old, added in zip(before[:3], new[:3], strict=True)]
    return observed(tuple(parts), shape=(height, width), empty="keep", who=NAME)


def plain(X: Any) -> Any:
    """The array of a DataFrame or of a masked array, in which masked is not observed; anything else as it is."""
    if isinstance(X, np.ma.MaskedArray) and X.dtype.kind in "fiub":
        return np.where(np.ma.getmaskarray(X), np.nan, X.data)
    if isinstance(X, tuple | list):
        return [unmasked(f"{NAME}: a part of (rows, columns, values)", part) for part in X]
    return X.to_numpy() if hasattr(X, "to_numpy") else X  # pyright: ignore[reportAttributeAccessIssue]


def whole_numbers(name: str, given: Any) -> np.ndarray:
    """Row or column numbers as int64; anything but whole numbers is refused."""
    with in_a_sentence(f"{NAME}: {name}", "whole numbers from 0"):
        numbers = np.asarray(given)
    if numbers.dtype.kind not in "iu":
        raise ValueError(f"{NAME}: {name} have dtype {numbers.dtype}; expected whole numbers from 0.")
    return numbers.astype(np.int64)


def warn_of_empty(seen: Observed) -> None:
    """Say how many rows and columns have no rating; the warning points at the caller of `fit`."""
    said = []
    for name, at, length in (("rows", seen.rows, seen.shape[0]), ("columns", seen.columns, seen.shape[1])):
        empty = length - len(np.unique(at))
        said += [f"{empty:,} of {length:,} {name}"] if empty else []
    if said:
        warnings.warn(
            f"Nothing was observed in {' and '.join(said)}; predictions there are the mean with the effects of the others.",
            stacklevel=4,
        )
