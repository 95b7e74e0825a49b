"""Means of bounded values, n fixed: a bet that ends where the best test would, valid at every n.

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

from tightrope.confidence.checks import checked_confidence, checked_range, checked_values

SLACK = 0.02  # of the target; it moves the critical value at 95 % from 1.645 to 1.654
_BETS = 1 << 17  # at most; longer samples are bet on in blocks, whose means have the same mean and range
_LANES = 32  # means m that are tested side by side
_ORDER = 0  # of rows: shuffled once for all, because files are sorted and a bet sees the first rows first


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
    """What is bet on, in order: rows, or means of blocks of them whose sizes differ by one at most."""
    x = x[np.random.default_rng(_ORDER).permutation(len(x))]
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
