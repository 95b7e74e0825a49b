"""Means of values without a known range: mean plus a quantile of standard errors. Asymptotic, never proven at a given n."""

from typing import Any

import numpy as np

from tightrope.confidence.checks import checked_confidence, checked_values


def studentised_upper(values: Any, confidence: float) -> Any:
    """Student's upper bound on a mean, moved up by Johnson's (1978) term where the values are skewed to the right.

    mean + s/sqrt(n) (t + g (1 + 2 t^2) / (6 sqrt(n))), with g the sample's skewness where that is positive and 0 elsewhere:
    a bound on a mean fails by a long right tail of which too little was seen. Asymptotic: right as n grows where the third
    moment is finite.

    Args:
        values: n >= 2 independent values, or n rows with a column for each of several means.
        confidence: the probability, as n grows, that the bound is above the mean.

    Example:
        >>> round(studentised_upper([0.0, 1.0, 2.0, 3.0], 0.95), 3)
        3.019
    """
    from scipy.special import stdtrit

    rows = checked_values(values)
    n = len(rows)
    if n < 2:
        return np.full(rows.shape[1], np.inf) if np.ndim(values) == 2 else float("inf")
    t = stdtrit(n - 1, checked_confidence(confidence))
    error = rows.std(axis=0, ddof=1) / np.sqrt(n)
    upper = rows.mean(axis=0) + error * (t + np.maximum(_skewness(rows), 0) * (1 + 2 * t * t) / (6 * np.sqrt(n)))
    return upper if np.ndim(values) == 2 else float(upper[0])


def skewness_shortfall(values: Any, confidence: float) -> Any:
    """A look at the tails: by how much skewness lowers the confidence of Student's bound, to first order.

    Edgeworth: P(bound below the mean) is about alpha + g (2 z^2 + 1) phi(z) / (6 sqrt(n)). As one value comes to carry the
    whole sum of squares, g / sqrt(n) goes to 1, whatever n: then nothing is known of the tail. A sample with a shortfall of
    more than a fifth of alpha (0.01 at 95 %) looks heavy-tailed. The correction in `studentised_upper` makes up for most of
    it where the third moment is finite, so the look errs on the side of caution.

    Returns:
        For each column, the shortfall; at least 0.

    Example:
        >>> import numpy as np
        >>> from tightrope.confidence import skewness_shortfall
        >>> even, rare = np.linspace(-1, 1, 100), np.eye(100)[0]
        >>> bool(skewness_shortfall(even, 0.95) < 0.01 < skewness_shortfall(rare, 0.95))
        True
    """
    from scipy.special import ndtri

    rows = checked_values(values)
    z = ndtri(checked_confidence(confidence))
    density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    shortfall = np.maximum(_skewness(rows), 0) * (2 * z * z + 1) * density / (6 * np.sqrt(len(rows)))
    return shortfall if np.ndim(values) == 2 else float(shortfall[0])


def _skewness(rows: np.ndarray) -> np.ndarray:
    away = rows - rows.mean(axis=0)
    spread = np.sqrt((away**2).mean(axis=0))
    units = away / np.where(spread > 0, spread, 1)
    return (units**3).mean(axis=0)
