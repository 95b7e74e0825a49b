"""The Neyman-Pearson umbrella (Tong, Feng & Li 2018): a threshold whose error rate is bounded, for any score."""

import math

import numpy as np

from tightrope._errors import whole_number
from tightrope.confidence.checks import checked_confidence


def umbrella_order(n: int, rate: float, confidence: float) -> int | None:
    """Which order statistic of n held-out scores of one class is exceeded by at most a share `rate` of that class.

    Sort the n scores upwards; the k-th (counted from 1) as threshold, "above it" as the decision, has a rate above `rate`
    with probability at most P(Bin(n, 1 - rate) >= k), with equality for continuous scores. k is the smallest for which
    that is at most 1 - confidence. None where n is too small for any (see `umbrella_least`).

    Example:
        >>> umbrella_order(1000, 0.05, 0.95)
        962
    """
    from scipy.stats import binom

    alpha = 1 - checked_confidence(confidence)
    n, rate = whole_number("umbrella_order", "n", n, 0), _checked_rate(rate)
    ks = np.arange(1, n + 1)
    fits = binom.sf(ks - 1, n, 1 - rate) <= alpha
    return int(ks[np.argmax(fits)]) if fits.any() else None


def umbrella_least(rate: float, confidence: float) -> int:
    """The fewest scores for which `umbrella_order` gives one: then the largest of them is the threshold.

    Example:
        >>> umbrella_least(0.01, 0.95)
        299
    """
    return math.ceil(math.log(1 - checked_confidence(confidence)) / math.log1p(-_checked_rate(rate)))


def _checked_rate(rate: float) -> float:
    if not 0 < rate < 1:
        raise ValueError(f"rate is {rate!r}; expected a number between 0 and 1.")
    return float(rate)
