"""Two rates: score tests and intervals of their ratio and difference, asymptotic; and rates along a path of thresholds.

The ratio is by the score test of p_a = rho p_b (Koopman 1984; Miettinen & Nurminen 1985), the difference by that of
p_b - p_a = delta (Miettinen & Nurminen 1985). Intervals to report are all made of Wilson's (1927), which inverts the score
test of one rate, so that it has sense where nobody or everybody is counted; those of two rates recover the variances from it
(Newcombe 1998 for differences, Donner & Zou 2012 for ratios): closed forms, which take effective numbers of rows.
"""

import math
from collections.abc import Iterable
from itertools import takewhile

import numpy as np

from tightrope._errors import whole_number
from tightrope.confidence.means import checked_confidence, checked_counts

# ---- the ratio of two rates ------------------------------------------------------------------------------------------


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


# ---- the difference of two rates -------------------------------------------------------------------------------------


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


# ---- intervals -------------------------------------------------------------------------------------------------------


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


# ---- the Neyman-Pearson umbrella (Tong, Feng & Li 2018): a threshold whose error rate is bounded, for any score ------


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


# ---- choosing along a path without paying for the number of its points -----------------------------------------------


def fixed_sequence(passed: Iterable[bool]) -> int:
    """How many tests at the head of a sequence are passed; nothing after the first failure is looked at.

    Order the candidates from the safest on WITHOUT looking at the judging data, test each with the full confidence, and
    stop at the first failure. Then every one before it may be used with that confidence: a wrong one can only be among
    them if the first wrong one in the order passed its test (Learn-then-Test, Angelopoulos et al.).

    Example:
        >>> fixed_sequence(bound <= 0.1 for bound in [0.02, 0.06, 0.13, 0.09])
        2
    """
    return sum(1 for _ in takewhile(bool, passed))
