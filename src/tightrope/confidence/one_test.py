"""One test of a bounded mean, where its bound would take a search: for many candidates side by side."""

from typing import Any

import numpy as np

from tightrope.confidence.bounded import _bets, _rejects  # pyright: ignore[reportPrivateUsage]
from tightrope.confidence.checks import checked_confidence, checked_range, checked_values


def mean_at_most_zero(values: Any, low: Any, high: Any, confidence: float) -> Any:
    """Whether the mean of values in [low, high] is at most 0, with this confidence; proven for independent rows at every n.

    It says so where `bounded_upper` would be at most 0, at a hundredth of the cost.

    Args:
        values: n independent values, or n rows with a column for each of several means.
        low, high: numbers, or one for each column, low < 0 < high; every possible value lies between them.
        confidence: one minus the probability of saying so wrongly, for each column.

    Example:
        >>> values = np.random.default_rng(0).uniform(-1, 0.5, 1000)
        >>> mean_at_most_zero(values, -1, 0.5, 0.95), mean_at_most_zero(values + 0.25, -0.75, 0.75, 0.95)
        (True, False)
    """
    rows = checked_values(values)
    alpha = 1 - checked_confidence(confidence)
    low, high = checked_range(rows, low, high)
    x = _bets(np.clip((rows - low) / (high - low), 0, 1))
    below = _rejects(x, (-low / (high - low))[None], alpha)[0]
    return below if np.ndim(values) == 2 else bool(below[0])
