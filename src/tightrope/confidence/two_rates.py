"""Intervals of a rate, and of the difference and the ratio of two independent ones, all made of Wilson's. Asymptotic.

Wilson's interval inverts the score test of one rate (Wilson 1927), so that it has sense where nobody or everybody is
counted. The intervals of two rates recover the variances from it (Newcombe 1998 for differences, Donner & Zou 2012 for
ratios): closed forms, which take effective numbers of rows, whole or not.
"""

import numpy as np

from tightrope.confidence.checks import checked_confidence


def wilson(rate: np.ndarray, n: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """A two-sided interval for a rate that was found among n rows; from 0 to 1 where n is 0.

    Example:
        >>> low, high = wilson(np.array([0.2, 0.0]), np.array([100.0, 10.0]), 0.95)
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.133, 0.0], [0.289, 0.278])
    """
    z2 = _quantile(confidence) ** 2
    r, n = np.nan_to_num(np.asarray(rate, float)), np.asarray(n, float)
    middle, half = r * n + z2 / 2, np.sqrt(z2 * (r * (1 - r) * n + z2 / 4))
    # the ends are exactly 0 and 1 where nobody or everybody is counted, up to which rounding should not get
    return np.where(r * n > 0, (middle - half) / (n + z2), 0.0), np.where(r < 1, (middle + half) / (n + z2), 1.0)


def difference_interval(
    rates: tuple[np.ndarray, np.ndarray], ns: tuple[np.ndarray, np.ndarray], confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """A two-sided interval for p_a - p_b from rates a and b that were found among n_a and n_b independent rows.

    Example:
        >>> rates, ns = (np.array([56 / 70]), np.array([48 / 80])), (np.array([70.0]), np.array([80.0]))
        >>> low, high = difference_interval(rates, ns, 0.95)  # Newcombe's own example, method 10
        >>> low.round(4).tolist(), high.round(4).tolist()
        ([0.0524], [0.3339])
    """
    (a, b), ((la, ua), (lb, ub)) = rates, (wilson(r, n, confidence) for r, n in zip(rates, ns, strict=True))
    return a - b - np.hypot(a - la, ub - b), a - b + np.hypot(ua - a, b - lb)


def ratio_interval(
    rates: tuple[np.ndarray, np.ndarray], ns: tuple[np.ndarray, np.ndarray], confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """A two-sided interval for p_a / p_b; its upper end is infinite where p_b may be 0.

    Example:
        >>> rates, ns = (
        ...     (np.array([0.2, 0.0]), np.array([0.25, 0.25])),
        ...     (np.array([400.0, 400.0]), np.array([400.0, 400.0])),
        ... )
        >>> low, high = ratio_interval(rates, ns, 0.9)
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.644, 0.0], [0.994, 0.027])
    """
    (a, b), ((la, ua), (lb, ub)) = rates, (wilson(r, n, confidence) for r, n in zip(rates, ns, strict=True))
    # p_a - rho p_b has 0 for an end of its own interval where rho is a root of a quadratic
    with np.errstate(divide="ignore", invalid="ignore"):
        low = la * (2 * a - la) / (a * b + _root(a * b, la * (2 * a - la) * ub * (2 * b - ub)))
        high = (a * b + _root(a * b, ua * (2 * a - ua) * lb * (2 * b - lb))) / (lb * (2 * b - lb))
    return np.where(la > 0, low, 0.0), np.where(lb > 0, high, np.inf)


def _root(product: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(product**2 - other, 0.0))


def _quantile(confidence: float) -> float:
    from scipy.special import ndtri

    return float(ndtri((1 + checked_confidence(confidence)) / 2))
