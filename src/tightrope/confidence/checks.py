"""What every bound asks of its arguments."""

from typing import Any

import numpy as np


def checked_confidence(confidence: Any) -> float:
    """A probability strictly between 0 and 1."""
    if isinstance(confidence, bool) or not isinstance(confidence, int | float | np.number) or not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence!r}; expected a number between 0 and 1, such as 0.95.")
    return float(confidence)


def checked_counts(successes: Any, n: Any) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers with 0 <= successes <= n. Weighted counts have another distribution and are refused."""
    k, n = np.asarray(successes, float), np.asarray(n, float)
    if not (np.all(k == np.floor(k)) and np.all(n == np.floor(n)) and np.all(k >= 0) and np.all(k <= n)):
        raise ValueError(
            f"{successes!r} successes of {n!r} were given; expected whole numbers, 0 <= successes <= n. Sums of weights are "
            "no counts: give each weighted value to bounded_upper, with the range it can have."
        )
    return k, n


def checked_values(values: Any) -> np.ndarray:
    """Finite numbers: n of them, or n rows with a column for each mean; as (n, columns)."""
    array = np.asarray(values, float)
    if array.ndim not in (1, 2) or not len(array):
        raise ValueError(f"values of shape {array.shape} were given; expected n numbers, or n rows of them, n >= 1.")
    if not np.all(np.isfinite(array)):
        bad = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ValueError(f"a value is not finite (first in row {bad}); no bound can be made of it.")
    return array if array.ndim == 2 else array[:, None]


def checked_range(values: np.ndarray, low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    """Bounds low < high of every column; a value outside proves them wrong."""
    low, high = (np.broadcast_to(np.asarray(b, float), values.shape[1:]) for b in (low, high))
    if not np.all(np.isfinite(low) & np.isfinite(high) & (low < high)):
        raise ValueError(f"the range is from {low} to {high}; expected finite numbers, low < high.")
    if values.size and (np.any(values < low) or np.any(values > high)):
        outside = values[(values < low) | (values > high)].flat[0]
        raise ValueError(
            f"a value of {outside:.6g} is outside of the range that was given ({low.min():.6g} to {high.max():.6g}); a "
            "bound that relies on it would be wrong. Give the range that every possible sample has."
        )
    return low, high
