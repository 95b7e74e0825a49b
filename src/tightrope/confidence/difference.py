"""The difference of two rates: the score test of p_b - p_a = delta (Miettinen & Nurminen 1985). Asymptotic."""

import math

from tightrope.confidence.checks import checked_confidence
from tightrope.confidence.ratio import in_errors


def difference_upper(a: float, n_a: float, b: float, n_b: float, confidence: float) -> float:
    """An upper bound on p_b - p_a from a successes of n_a and b of n_b independent trials.

    The largest delta that a one-sided score test does not reject. Counts may be effective ones, of rows with weights.

    Example:
        >>> round(difference_upper(80, 400, 100, 400, 0.95), 3)
        0.099
    """
    from scipy.optimize import root_scalar
    from scipy.special import ndtri

    z = float(ndtri(checked_confidence(confidence)))
    if n_a <= 0 or n_b <= 0:
        return 1.0
    low, high = b / n_b - a / n_a, 1 - 1e-12
    if low >= high or difference_score(high, a, n_a, b, n_b) <= z:
        return 1.0
    if difference_score(low + 1e-12, a, n_a, b, n_b) >= z:
        return low
    found = root_scalar(lambda delta: difference_score(delta, a, n_a, b, n_b) - z, bracket=(low + 1e-12, high))
    return float(found.root)


def difference_score(delta: float, a: float, n_a: float, b: float, n_b: float) -> float:
    """(p_a - p_b + delta) in standard errors, with the rates most likely under p_b - p_a = delta in the variance.

    Above the 1 - alpha quantile of a normal variable, p_b - p_a <= delta with confidence 1 - alpha.

    Example:
        >>> round(difference_score(0.1, 80, 400, 100, 400), 2)
        1.69
    """
    total, of_a, of_b = n_a + n_b, a / n_a, b / n_b
    # the likelihood under p_a = p_b - delta is largest at a root of a cubic in p_a, which has three real ones
    theta = n_b / n_a
    c3, c2 = 1 + theta, -(1 + theta + of_a + theta * of_b - delta * (theta + 2))
    c1, c0 = delta**2 - delta * (2 * of_a + theta + 1) + of_a + theta * of_b, of_a * delta * (1 - delta)
    v = (c2 / (3 * c3)) ** 3 - c2 * c1 / (6 * c3**2) + c0 / (2 * c3)
    u = math.copysign(math.sqrt(max((c2 / (3 * c3)) ** 2 - c1 / (3 * c3), 0.0)), v)
    angle = (math.pi + math.acos(min(max(v / u**3, -1.0), 1.0))) / 3 if u else math.pi / 2
    p_a = min(max(2 * u * math.cos(angle) - c2 / (3 * c3), max(0.0, -delta)), min(1.0, 1 - delta))
    p_b = p_a + delta
    variance = (p_a * (1 - p_a) / n_a + p_b * (1 - p_b) / n_b) * total / (total - 1)
    return in_errors(of_a - of_b + delta, variance)
