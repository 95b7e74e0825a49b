"""Clopper and Pearson: exact bounds on a rate, from how many of n independent trials were successes."""

from typing import Any

import numpy as np

from tightrope.confidence.checks import checked_confidence, checked_counts


def binomial_upper(successes: Any, n: Any, confidence: float) -> Any:
    """The largest rate p with P(Bin(n, p) <= successes) >= 1 - confidence; above the true one with this confidence.

    Counts are whole numbers, or arrays of them; sums of weights are refused. Without trials it is 1.

    Example:
        >>> round(binomial_upper(0, 299, 0.95), 4)
        0.01
    """
    from scipy.special import betaincinv

    level = checked_confidence(confidence)
    k, n = checked_counts(successes, n)
    return _plain(np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), level), 1.0))


def binomial_lower(successes: Any, n: Any, confidence: float) -> Any:
    """The mirror image of `binomial_upper`: below the true rate with this confidence.

    Example:
        >>> round(binomial_lower(299, 299, 0.95), 4)
        0.99
    """
    k, n = checked_counts(successes, n)
    return _plain(1 - np.asarray(binomial_upper(n - k, n, confidence)))


def _plain(value: np.ndarray) -> Any:
    return float(value) if np.ndim(value) == 0 else value
