"""A test of whether neighbouring rows are alike: every bound of this room is for independent rows.

Two looks at values in the order of their rows: the lag-one autocorrelation, and the variance of sums over blocks of 2, 4, 8,
... rows relative to that of independent ones (a variance ratio, Lo & MacKinlay 1988), each in its standard deviations. The
largest of them is compared with the same number after random permutations of the rows. Independent rows of one law are
exchangeable, so the test is exact at every n and for every law, ties and heavy tails included, whatever number of looks and
columns. It is made of ranks, which no outlier hides anything from, and of the values themselves, in which rare events count
as much as they do in the mean.
"""

from typing import Any, NamedTuple

import numpy as np

from tightrope.confidence.checks import checked_values

_PERMUTATIONS = 1999  # none may reach the rows' own order: 1/2,000 each for ranks and values, a false alarm in 1,000
_DOUBT = 3.0  # standard deviations: below, no permutation is tried, because an alarm is far away
_CERTAIN = (
    10.0  # standard deviations: beyond, chance is below 1e-6 for scores of at most 2 (Bernstein; chi-square with 8)
)
_BLOCKS = 8  # at least, in the longest look: fewer have no variance to speak of
_VALUES = 1 << 15  # that are permuted: 2,000 permutations take about a second
_MOST = 0.9  # autocorrelation that is allowed for: a guess, beyond which few rows that are not found alike are too few
_AT_ONCE = 1 << 14  # numbers that are permuted in one call, for speed
_STRETCHES = 64  # of neighbouring rows, evenly spaced, stand for longer files: short correlations and slow drifts show


class Dependence(NamedTuple):
    """The finding of `serial_dependence`.

    Attributes:
        found: neighbouring rows are alike. Said falsely of independent rows with a probability of at most 1e-3.
        inflation: for each column, the variance of the mean over that of independent rows, at least 1; an estimate, too low
            where rows are alike over more than a tenth of the file. 1 where nothing was found.

    Example:
        >>> from tightrope.confidence import serial_dependence
        >>> serial_dependence([0.0, 1.0, 1.0, 0.0] * 5).found
        False
    """

    found: bool
    inflation: np.ndarray


def serial_dependence(values: Any) -> Dependence:
    """A test of independence along rows against neighbours that are alike (in time, by groups, by sorting).

    Args:
        values: n numbers in the order of their rows, or n rows with a column for each of several means.

    Example:
        >>> import numpy as np
        >>> from tightrope.confidence import serial_dependence
        >>> noise = np.random.default_rng(0).normal(size=2000)
        >>> serial_dependence(noise).found, serial_dependence(np.sort(noise)).found
        (False, True)
    """
    rows = checked_values(values)
    varying = rows[:, np.ptp(rows, axis=0) > 0]
    found = varying.size > 0 and _found(_scores(_some(varying)))
    return Dependence(found, _inflation(rows) if found else np.ones(rows.shape[1]))


def leeway(values: Any) -> np.ndarray:
    """For each column a factor by which to widen a bound on its mean, for rows that chance alone may have made alike.

    The test above is rarely wrong, so it lets weak dependence of few rows pass. Where the lag-one autocorrelation is above
    one standard error, the factor is what an autoregression of order one asks for with it and one standard error more; 1
    elsewhere. It narrows nothing, so what is proven of independent rows stays proven.

    Args:
        values: as for `serial_dependence`.

    Example:
        >>> from tightrope.confidence import leeway
        >>> leeway([0.0, 1.0] * 50), leeway([0.0, 0.0, 1.0, 0.0] * 25)
        (array([1.]), array([1.]))
    """
    rows = checked_values(values)
    away = rows - rows.mean(axis=0)
    squares, error = (away**2).sum(axis=0), 1 / np.sqrt(len(rows))
    r = (away[1:] * away[:-1]).sum(axis=0) / np.where(squares > 0, squares, 1) * (np.ptp(rows, axis=0) > 0)
    r = np.where(r > error, np.minimum(r + error, _MOST), 0)
    return np.sqrt((1 + r) / (1 - r))


def _some(rows: np.ndarray) -> np.ndarray:
    """The rows, or stretches of them: independent rows stay independent whichever are taken by their numbers."""
    each = max(16, _VALUES // rows.shape[1] // _STRETCHES)
    if len(rows) <= each * _STRETCHES:
        return rows
    starts = np.linspace(0, len(rows) - each, _STRETCHES).astype(int)
    return rows[(starts[:, None] + np.arange(each)).ravel()]


def _scores(rows: np.ndarray) -> np.ndarray:
    """Ranks and values, a line for each column, with mean 0 and mean square 1: (2, columns, rows)."""
    from scipy.stats import rankdata

    both = np.stack([rankdata(rows, axis=0).T, (rows / np.abs(rows).max(axis=0)).T])
    both -= both.mean(axis=-1, keepdims=True)
    spread = np.sqrt((both**2).mean(axis=-1, keepdims=True))
    return both / np.where(spread > 0, spread, 1)


def _found(scores: np.ndarray) -> bool:
    own = _alike(scores)
    bounded = np.abs(scores).max(axis=-1) <= 2
    if np.any(bounded & (own >= _CERTAIN)):
        return True
    own, rng = own.max(axis=1), np.random.default_rng(0)
    open_ = own >= _DOUBT
    at_once = max(1, _AT_ONCE // scores[0].size)
    for start in range(0, _PERMUTATIONS, at_once):
        if not np.any(open_):
            return False
        numbers = np.tile(np.arange(scores.shape[-1]), (min(at_once, _PERMUTATIONS - start), 1))
        largest = _alike(scores[open_][:, :, rng.permuted(numbers, axis=1)]).max(axis=(1, 2))
        open_[open_] = largest < own[open_]
    return bool(np.any(open_))


def _alike(scores: np.ndarray) -> np.ndarray:
    """The largest of all looks at each line, in standard deviations of independent rows."""
    n = scores.shape[-1]
    looks: list[np.ndarray] = [(scores[..., 1:] * scores[..., :-1]).sum(axis=-1) / np.sqrt(n)]
    for m, sums in _block_sums(scores, _BLOCKS):
        used = m * sums.shape[-1]
        looks.append(((sums**2).sum(axis=-1) / used - 1) / np.sqrt(2 * (m - 1) / used))
    return np.max(looks, axis=0)


def _inflation(rows: np.ndarray) -> np.ndarray:
    """The largest variance of block means, times their length, over that of rows."""
    away = (rows - rows.mean(axis=0)).T
    variance = (away**2).mean(axis=-1)
    ratios = [np.ones(len(away))]
    for m, sums in _block_sums(away, 10):
        ratios.append((sums**2).mean(axis=-1) / (m * np.where(variance > 0, variance, 1)))
    return np.max(ratios, axis=0)


def _block_sums(lines: np.ndarray, least: int) -> Any:
    """(m, sums over blocks of m) for m = 2, 4, 8, ... while there are at least so many blocks."""
    m, sums = 1, lines
    while sums.shape[-1] // 2 >= least:
        even = sums.shape[-1] // 2 * 2
        m, sums = 2 * m, sums[..., 0:even:2] + sums[..., 1:even:2]
        yield m, sums
