"""The ratio of two rates: the score test of p_a = rho p_b (Koopman 1984; Miettinen & Nurminen 1985). Asymptotic."""

import math

from tightrope.confidence.checks import checked_confidence, checked_counts


def ratio_lower(a: int, n_a: int, b: int, n_b: int, confidence: float) -> float:
    """A lower bound on p_a / p_b from a successes of n_a and b of n_b independent trials.

    The smallest rho that a one-sided score test does not reject. It needs no logarithm, so a group without successes has
    a bound too (0). For "every ratio is at least p", ask for each; see the package for why no Bonferroni is needed.

    Example:
        >>> round(ratio_lower(80, 400, 100, 400, 0.95), 3)
        0.643
    """
    checked_counts([a, b], [n_a, n_b])
    return effective_ratio_lower(a, n_a, b, n_b, confidence)


def effective_ratio_lower(a: float, n_a: float, b: float, n_b: float, confidence: float) -> float:
    """The same for rows with weights: n is the number of rows of equal weight that would know a weighted rate r as well,
    r (1 - r) (sum of w)^2 / sum of w^2 (d - r)^2 for decisions d, and a and b are the weighted rates times n.

    Example:
        >>> effective_ratio_lower(80.0, 400.0, 100.0, 400.0, 0.95) == ratio_lower(80, 400, 100, 400, 0.95)
        True
    """
    from scipy.optimize import root_scalar
    from scipy.special import ndtri

    z = float(ndtri(checked_confidence(confidence)))
    if a == 0 or n_b == 0 or n_a == 0:
        return 0.0
    if b == 0 and z <= 0:  # even odds or less: what is as likely as the estimate, which is infinite
        return math.inf
    high = (a / n_a) / (b / n_b) if b else 1.0  # at the estimate the score is 0; without one, look for a small one
    while b == 0 and ratio_score(high, a, n_a, b, n_b) > z:
        high *= 2
    low = high
    while ratio_score(low, a, n_a, b, n_b) <= z:
        low /= 2
        if low < 1e-12 * high:
            return 0.0
    if low == high:
        return low
    found = root_scalar(lambda rho: ratio_score(rho, a, n_a, b, n_b) - z, bracket=(low, high), method="brentq")
    return float(found.root)


def ratio_score(rho: float, a: float, n_a: float, b: float, n_b: float) -> float:
    """(p_a - rho p_b) in standard errors, with the rates most likely under p_a = rho p_b in the variance.

    Above the 1 - alpha quantile of a normal variable, p_a >= rho p_b with confidence 1 - alpha. Counts may be effective
    ones.

    Example:
        >>> round(ratio_score(0.643, 80, 400, 100, 400), 2)
        1.65
    """
    total = n_a + n_b
    big, half = rho * total, (rho * (n_a + b) + a + n_b) / 2
    root = math.sqrt(max(half * half - big * (a + b), 0.0))
    p_b = (half - root) / big
    if p_b <= 0 < a + b:  # all digits are lost where next to nobody is decided positive; so written, none is
        p_b = (a + b) / (half + root)
    p_b = min(max(p_b, 0.0), 1.0, 1 / rho)
    p_a = min(rho * p_b, 1.0)
    variance = (p_a * (1 - p_a) / n_a + rho**2 * p_b * (1 - p_b) / n_b) * total / (total - 1)
    return in_errors(a / n_a - rho * b / n_b, variance)


def in_errors(away: float, variance: float) -> float:
    """A difference in standard errors; without any variance it is infinite, unless it is none."""
    return away / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, away) if away else 0.0
