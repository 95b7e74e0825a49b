"""Draws among rows: which rows of a table are copies of others, whatever its columns hold."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from tightrope.confidence import copied_from

_ENTRIES = 100_000_000  # the most entries, zeros included, of sparse rows that are searched for copies; a guess


def draws(X: Any, *others: np.ndarray) -> np.ndarray | None:
    """A number for each row that its copies share, equal in all features and in the others; None where no row is a copy.

    Example:
        >>> table = pd.DataFrame({"town": list("abcd") * 25, "sum": np.random.default_rng(0).normal(size=100)})
        >>> draws(pd.concat([table, table]), np.ones(200))[98:103].tolist()
        [98, 99, 0, 1, 2]
    """
    if issparse(X):
        if X.shape[0] * X.shape[1] > _ENTRIES:
            return None
        X = X.toarray()
    if not isinstance(X, pd.DataFrame):
        values = np.asarray(X)
        X = pd.DataFrame(values.reshape(len(values), -1))
    return copied_from([*(_numbers(X.iloc[:, place]) for place in range(X.shape[1])), *others])


def _numbers(column: pd.Series) -> np.ndarray:
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column):
        return column.to_numpy(dtype=float, na_value=np.nan)
    return pd.factorize(column.astype(str))[0]
