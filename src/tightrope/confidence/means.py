"""Bounds on means: of values in a known range and of counts, proven at every n; of values without one, asymptotic.

Bounded values, n fixed, are bounded by a bet that ends where the best test would.

Write values as X in [0, 1]. To test "the mean is at least m", start with u = alpha and bet b on every row before seeing
it: u <- u + b (m - X). As long as b depends on the past only, u is a supermartingale under that hypothesis, whatever
the bets, so u reaches 1 with probability at most alpha (Ville): reject then. Bets decide the width alone.

The best test of a Gaussian mean has, with r rows to come, a probability of rejecting u = Phi(z), which moves by
phi(z) / (sd sqrt(r)) for every unit of m - X. That is the bet: b(u) = phi(Phi^-1(u)) / (sd sqrt(r)), sd as seen so far. It
recalculates its target from what is won, as the STaR-Bets of Voracek and Orabona (arXiv 2505.22422) do, of which it is the
exact Gaussian form. Two caps: never more than there is, b <= u / (1 - m), and never beyond the target, b <= (1 - u) / m.

Both caps with b concave and zero at 0 and 1 make u after every row non-decreasing in u before it, and in m (each of the
three forms is, and the least of them is continuous). So the rejected m are an interval, and the bound is its lower end:
it can be searched without an inequality of its own. Under the second cap u = 1 cannot be overshot, so the target is
1 - SLACK, and u starts with alpha (1 - SLACK), by which Markov's inequality is the same.
"""

from typing import Any

import numpy as np

SLACK = 0.02  # of the target of a bet; it moves the critical value at 95 % from 1.645 to 1.654: a guess
ENOUGH = 20  # independent values: fewer say no standard error; derived: these know it to 1/sqrt(2 ENOUGH), a sixth
USUAL = 0.95  # the confidence of what nobody asked for with another; as is usual
TWO_SIDED = 1.96  # standard errors to either side of an interval of 95 %; derived, from the normal law
_BETS = 1 << 17  # rows at most; longer samples are bet on in blocks, whose means have the same mean and range: a guess
_LANES = 32  # means m that are tested side by side: a guess, of speed alone


# ---- what every bound asks of its arguments --------------------------------------------------------------------------


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


# ---- values in a known range -----------------------------------------------------------------------------------------


def bounded_upper(values: Any, low: Any, high: Any, confidence: float) -> Any:
    """An upper bound on the mean of values in [low, high], n fixed; proven at every n for independent draws of one law.

    At n = 10,000 it is 1.0 to 1.2 times as wide as the normal approximation, which is not proven (docs/certificates.md).

    Args:
        values: n independent draws of one law, or n rows of them with a column for each of several means.
        low, high: numbers, or one for each column; every possible value lies between them, not only those seen.
        confidence: the probability that the bound is above the mean, for each column.

    Example:
        >>> import numpy as np
        >>> values = np.random.default_rng(0).uniform(0, 1, 1000)
        >>> bool(values.mean() < bounded_upper(values, 0, 1, 0.95) < values.mean() + 0.02)
        True
    """
    rows = checked_values(values)
    alpha = 1 - checked_confidence(confidence)
    low, high = checked_range(rows, low, high)
    x = _bets(np.clip((rows - low) / (high - low), 0, 1))
    upper = low + (high - low) * _smallest_rejected(x, alpha)
    return upper if np.ndim(values) == 2 else float(upper[0])


def bounded_below(values: Any, low: Any, high: Any, level: Any, confidence: float) -> Any:
    """Whether the mean is shown to be below a level: the test behind `bounded_upper`, at one mean and far cheaper.

    Args:
        values, low, high, confidence: as for `bounded_upper`.
        level: a number, or one for each column.

    Example:
        >>> import numpy as np
        >>> bounded_below(np.random.default_rng(0).uniform(0, 1, 1000), 0, 1, 0.6, 0.95)
        True
    """
    rows = checked_values(values)
    alpha = 1 - checked_confidence(confidence)
    low, high = checked_range(rows, low, high)
    m = (np.broadcast_to(np.asarray(level, float), low.shape) - low) / (high - low)
    x = _bets(np.clip((rows - low) / (high - low), 0, 1))
    shown = np.where(m >= 1, m > 1, (m > 0) & _rejects(x, np.clip(m, 0, 1)[None], alpha)[0])
    return shown if np.ndim(values) == 2 else bool(shown[0])


def bounded_lower(values: Any, low: Any, high: Any, confidence: float) -> Any:
    """The mirror image of `bounded_upper`: below the mean with this confidence.

    Example:
        >>> import numpy as np
        >>> from tightrope.confidence import bounded_lower
        >>> bool(0.4 < bounded_lower(np.linspace(0, 1, 400), 0, 1, 0.95) < 0.5)
        True
    """
    mirrored = bounded_upper(-np.asarray(values, float), -np.asarray(high, float), -np.asarray(low, float), confidence)
    return -mirrored


def _bets(x: np.ndarray) -> np.ndarray:
    """The values that are bet on, in order: rows, or means of blocks of them whose sizes differ by one at most. Rows are
    shuffled once for all, because files are sorted and a bet sees the first rows first."""
    x = x[np.random.default_rng(0).permutation(len(x))]
    if len(x) <= _BETS:
        return x
    edges = np.linspace(0, len(x), _BETS + 1).astype(int)
    return np.add.reduceat(x, edges[:-1]) / np.diff(edges)[:, None]


def _smallest_rejected(x: np.ndarray, alpha: float) -> np.ndarray:
    """For every column, a mean m that is rejected, close above the largest that is not; 1 where none is."""
    mean, error = x.mean(axis=0), x.std(axis=0) / np.sqrt(len(x))
    reach = 4 * error + 4 / len(x)  # the test itself is in no doubt about means this far off, or the bracket grows
    low, high = mean, np.minimum(mean + reach, 1.0)
    best = np.ones_like(mean)
    for _ in range(12):
        lanes = low + (high - low) * np.linspace(0, 1, _LANES + 1)[1:, None]
        rejected = _rejects(x, lanes, alpha)
        found = rejected[-1]
        first = np.argmax(rejected, axis=0)
        column = np.arange(len(mean))
        best = np.where(found, np.minimum(best, lanes[first, column]), best)
        low = np.where(found, np.where(first > 0, lanes[first - 1, column], low), high)
        wider = np.minimum(mean + 4 * (high - mean), 1.0)
        settled = found & (best - low <= 0.01 * (best - mean) + 1e-12) | (~found & (high >= 1))
        high = np.where(found, best, wider)
        if np.all(settled):
            break
    return best


def _rejects(x: np.ndarray, m: np.ndarray, alpha: float) -> np.ndarray:
    """Whether "the mean is at least m" is rejected, for lanes m of shape (lanes, columns)."""
    from scipy.special import ndtri

    n = len(x)
    scale = np.sqrt(2 * np.pi) * _spread_before(x) * np.sqrt(np.arange(n, 0, -1))[:, None]
    u = np.full(m.shape, alpha * (1 - SLACK))
    most = u.copy()
    have, need = 1 / np.maximum(1 - m, 1e-300), 1 / np.maximum(m, 1e-300)
    for row, s in zip(x, scale, strict=True):
        z = ndtri(u)
        bet = np.minimum(np.exp(-0.5 * z * z) / s, np.minimum(u * have, (1 - u) * need))
        u = np.clip(u + bet * (m - row), 0.0, 1.0)  # rounding aside it is there
        np.maximum(most, u, out=most)
    return most >= 1 - SLACK


def _spread_before(x: np.ndarray) -> np.ndarray:
    """The standard deviation as known before each row: of the rows so far and one worth 1/4, the most that there can be."""
    count = np.arange(1, len(x) + 1)[:, None]
    means = (0.5 + np.cumsum(x, axis=0)) / (count + 1)
    squares = 0.25 + np.cumsum((x - means) ** 2, axis=0)
    after = squares / (count + 1)
    return np.sqrt(np.concatenate([np.full((1, x.shape[1]), 0.25), after[:-1]]))


# ---- rates, by Clopper and Pearson: exact ----------------------------------------------------------------------------


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


# ---- values without a known range: asymptotic, never proven at a given n ---------------------------------------------


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
    upper = rows.mean(axis=0) + error * (t + johnsons_term(right_skewness(rows), t, n))
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
    shortfall = johnsons_term(right_skewness(rows), z, len(rows)) * density
    return shortfall if np.ndim(values) == 2 else float(shortfall[0])


def johnsons_term(skewed: Any, t: Any, n: Any) -> Any:
    """What skewness to the right adds to Student's quantile t, for n independent values: g (1 + 2 t^2) / (6 sqrt(n))."""
    return skewed * (1 + 2 * t * t) / (6 * np.sqrt(n))


def right_skewness(rows: np.ndarray) -> np.ndarray:
    """The third moment of each column, in units of its spread, where that is positive; 0 elsewhere."""
    away = rows - rows.mean(axis=0)
    spread = np.sqrt((away**2).mean(axis=0))
    units = away / np.where(spread > 0, spread, 1)
    return np.maximum((units**3).mean(axis=0), 0)
