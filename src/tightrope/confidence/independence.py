"""Whether rows are independent draws, as every bound of this room takes them: neighbours that are alike, and copies.

**Neighbours.** Two looks at values in the order of their rows: the lag-one autocorrelation, and the variance of sums
over blocks of 2, 4, 8, ... rows relative to that of independent ones (a variance ratio, Lo & MacKinlay 1988), each in
its standard deviations. The largest of them is compared with the same number after random permutations of the rows.
Independent rows of one law are exchangeable, so the test is exact at every n and for every law, ties and heavy tails
included, whatever number of looks and columns. It is made of ranks, which no outlier hides anything from, and of the
values themselves, in which rare events count as much as they do in the mean.

**Copies.** Rows that are there several times, by oversampling or a join, are fewer draws than they look. Rows of
discrete data repeat themselves, and are draws each. Where a row is there ten times or less on average, the two are told
apart by

- several columns: equal rows are copies where there are far more pairs of them than chance makes, and far more than
  pairs of rows that differ in one column alone, whichever it is. Chance is that of columns independent of each other,
  each repeating itself as among *distinct* rows: a continuous number does not do so there, so one such column is enough;
- any number of columns: how often draws of any discrete law repeat themselves is a mixture of Poisson laws, which puts at
  most half of what it has above zero on the multiples of two, and a third on those of a larger number. Copies made as often
  of every row, or of every row of a class, break it, also where columns are rounded;
- one column: for such mixtures Cauchy-Schwarz bounds the factorial moments of the counts, M2^2 <= M1 M3.

A row that makes up a tenth of all (all zeros, say) is common, and is not looked at for this. Where nothing
tells, rows are taken for draws: of one column, or of several that are rounded, copies of rows drawn at random are not seen.
"""

from typing import Any, NamedTuple

import numpy as np

from tightrope.confidence.means import checked_values

# ---- neighbours that are alike ---------------------------------------------------------------------------------------

_PERMUTATIONS = 1999  # derived: none may reach the rows' own order, 1/2,000 each for ranks and values
_DOUBT = 3.0  # standard deviations: below, no permutation is tried, because an alarm is far away; by hand
_CERTAIN = 10.0  # standard deviations; derived: beyond, chance is below 1e-6 for scores of at most 2 (Bernstein)
_ODDS = 15.0  # derived: minus the logarithm of such a chance, where Bernstein's inequality has the scores' own bound
LEAST_BLOCKS = 10  # by which the variance of a mean is told, at least; by hand: its root is then known to a quarter
_VALUES = 1 << 15  # numbers that are permuted, also in one call; measured: 2,000 permutations take about a second
_MOST = 0.9  # autocorrelation that is allowed for: a guess, beyond which few rows that are not found alike are too few
TESTED = 16  # means at most whose order one call tests; measured: it takes a second for this many
_STRETCHES = 64  # of neighbouring rows, evenly spaced, which stand for longer files; by hand


class Dependence(NamedTuple):
    """The finding of `serial_dependence`.

    Attributes:
        found: neighbouring rows are alike. Said falsely of independent rows with a probability of at most 1e-3.
        inflation: for each column, the variance of the mean over that of independent rows, at least 1; an estimate, too low
            where rows are alike over more than a tenth of the file. 1 where nothing was found.
        longer: the same for blocks without an end, as the longest that there are let one think: larger, and less sure.

    Example:
        >>> from tightrope.confidence import serial_dependence
        >>> serial_dependence([0.0, 1.0, 1.0, 0.0] * 5).found
        False
    """

    found: bool
    inflation: np.ndarray
    longer: np.ndarray


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
    nothing = np.ones(rows.shape[1])
    return Dependence(found, *(_inflation(rows) if found else (nothing, nothing)))


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
    own, neighbours, largest = _alike(scores), _next(scores), np.abs(scores).max(axis=-1)
    # Every other pair of neighbours has no row in common: half of the sum, half of the variance.
    needed = np.sqrt(4 * _ODDS * (1 + largest**2 * np.maximum(neighbours, 0) / (2 * np.sqrt(scores.shape[-1]))))
    if np.any((largest <= 2) & (own >= _CERTAIN)) or np.any(neighbours >= needed):
        return True
    own, rng = own.max(axis=1), np.random.default_rng(0)
    open_ = own >= _DOUBT
    at_once = max(1, _VALUES // scores[0].size)
    for start in range(0, _PERMUTATIONS, at_once):
        if not np.any(open_):
            return False
        numbers = np.tile(np.arange(scores.shape[-1]), (min(at_once, _PERMUTATIONS - start), 1))
        permuted = _alike(scores[open_][:, :, rng.permuted(numbers, axis=1)]).max(axis=(1, 2))
        open_[open_] = permuted < own[open_]
    return bool(np.any(open_))


def _alike(scores: np.ndarray) -> np.ndarray:
    """The largest of all looks at each line, in standard deviations of independent rows."""
    looks: list[np.ndarray] = [_next(scores)]
    for m, sums in _block_sums(scores, LEAST_BLOCKS):
        used = m * sums.shape[-1]
        looks.append(((sums**2).sum(axis=-1) / used - 1) / np.sqrt(2 * (m - 1) / used))
    return np.max(looks, axis=0)


def _next(scores: np.ndarray) -> np.ndarray:
    """How alike each row and the next are, in the same units."""
    return (scores[..., 1:] * scores[..., :-1]).sum(axis=-1) / np.sqrt(scores.shape[-1])


def _inflation(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest variance of block means, times their length, over that of rows; and what longer blocks would show.

    With correlations that end at a length t, blocks of m miss c/m of it, so that the last doubling shows what is missing.
    Twice that is added: where blocks are hardly longer than t, the last doubling is still smaller than the one to come.
    Variances are taken about the mean of all, which follows them: by one part in the number of blocks, and in that of
    rows as good as independent.
    """
    away = (rows - rows.mean(axis=0)).T
    variance = (away**2).mean(axis=-1)
    ratios, lacking = [np.ones(len(away))], [1.0]
    for m, sums in _block_sums(away, LEAST_BLOCKS):
        ratios.append((sums**2).mean(axis=-1) / (m * np.where(variance > 0, variance, 1)))
        lacking.append(1 - 1 / sums.shape[-1])
    whole = np.array(ratios) / np.array(lacking)[:, None]
    longer = np.maximum(whole.max(axis=0), 3 * whole[-1] - 2 * whole[max(len(whole) - 2, 0)])
    return np.max(ratios, axis=0), longer / (1 - np.minimum(longer / len(rows), 0.5))


def _block_sums(lines: np.ndarray, least: int) -> Any:
    """(m, sums over blocks of m) for m = 2, 4, 8, ... while there are at least so many blocks."""
    m, sums = 1, lines
    while sums.shape[-1] // 2 >= least:
        even = sums.shape[-1] // 2 * 2
        m, sums = 2 * m, sums[..., 0:even:2] + sums[..., 1:even:2]
        yield m, sums


# ---- rows that are there several times -------------------------------------------------------------------------------

_NOTED = 1.1  # times what draws would have (the variance of a mean, M2^2 / (M1 M3)): less is not worth a word; by hand
_TIMES = 10  # that a row is there on average: discrete beyond, because nobody copies that often; by hand
_COMMON = 0.1  # of all rows; with more a row is one that the law itself repeats; by hand
_MORE = 10.0  # times as many equal pairs as by chance: columns may depend on each other; by hand
_LOOKS = 32  # columns that are left out in turn; more would only take time; by hand


def copies(rows: Any) -> np.ndarray | None:
    """The numbers of the first rows of each kind, where others are copies of them; None where rows are draws each.

    A bound that is to hold in both cases, copies or not, is the worse of two: of all rows, and of these. That costs what
    copies are worth, and nothing has to be decided.

    Args:
        rows: n rows with a column for each of several numbers; or a list of such arrays, side by side.

    Example:
        >>> import numpy as np
        >>> from tightrope.confidence import copies
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.normal(size=(100, 2))
        >>> copies(rows) is None, len(copies(np.repeat(rows, 3, axis=0)))
        (True, 100)
        >>> copies(rng.integers(0, 3, size=(100, 2))) is None
        True
    """
    found = _kinds(rows)
    return None if found is None else np.sort(found[0])


def copied_from(rows: Any) -> np.ndarray | None:
    """For each row the number of the one that it is a copy of, its own where it is a draw; None where all rows are draws.

    Rows that are common stay draws here; for `copies` they are one of each kind, because it is one of two bounds.

    Args:
        rows: as for `copies`.

    Example:
        >>> import numpy as np
        >>> from tightrope.confidence import copied_from
        >>> rows = np.random.default_rng(0).normal(size=(50, 2))
        >>> copied_from(np.repeat(rows, 2, axis=0))[:6].tolist()
        [0, 0, 2, 2, 4, 4]
    """
    found = _kinds(rows)
    if found is None:
        return None
    first, kind, rare = found
    return np.where(rare[kind], first[kind], np.arange(len(kind)))


def row_codes(rows: Any) -> np.ndarray:
    """A number between 0 and 1 for each row, the same for equal rows and as good as random otherwise.

    `serial_dependence` of them finds rows that are repeated one after the other, also where h is the same for all of them.

    Args:
        rows: as for `copies`.

    Example:
        >>> import numpy as np
        >>> from tightrope.confidence.independence import row_codes
        >>> codes = row_codes(np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 2.0]]))
        >>> bool(codes[0] == codes[2]), bool(codes[0] == codes[1])
        (True, False)
    """
    return np.asarray(sum(_words_of(rows))) / 2.0**64


def _words_of(rows: Any) -> list[np.ndarray]:
    """For each column a word for each row."""
    parts = [np.asarray(part) for part in (rows if isinstance(rows, list | tuple) else [rows])]
    columns = [column for part in parts for column in part.reshape(len(part), -1).T]
    factors = np.random.default_rng(0).integers(2**63, size=len(columns), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return [_words(column, factor) for column, factor in zip(columns, factors, strict=True)]


def _kinds(rows: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Where there are copies: the first row of each kind, the kind of each row, and which kinds are not common."""
    words = _words_of(rows)
    _, first, kind, counts = np.unique(sum(words), return_index=True, return_inverse=True, return_counts=True)
    n = len(kind)
    if np.sum(counts.astype(float) ** 2) < _NOTED * n or n > _TIMES * len(first):
        return None
    rare = counts <= max(_TIMES, _COMMON * n)
    varying = [word[first[rare]] for word in words]
    varying = [word for word in varying if np.any(word != word[0])]
    if not varying:  # all rows are one
        return None
    found = _too_even(counts[rare]) if len(varying) == 1 else _beyond_chance(varying, counts[rare])
    return (first, kind, rare) if found or _in_multiples(counts[rare]) else None


def _words(column: np.ndarray, factor: np.uint64) -> np.ndarray:
    """A number for each value; sums over columns are equal for equal rows and, but for a chance of 2^-64 or so, for these
    alone."""
    words = (column.astype(np.float64) + 0.0).view(np.uint64)  # -0 is 0
    words = (words ^ (words >> np.uint64(32))) * factor
    return (words ^ (words >> np.uint64(29))) * factor


def _pairs(of: np.ndarray) -> float:
    """How many pairs of these are equal."""
    _, counts = np.unique(of, return_counts=True)
    return float(np.sum(counts * (counts - 1.0)) / 2)


def _beyond_chance(columns: list[np.ndarray], counts: np.ndarray) -> bool:
    """Far more equal rows than columns explain one by one, and than rows that are equal but for one column, whichever."""
    distinct, seen = len(counts), float(np.sum(counts * (counts - 1.0)) / 2)
    chance = counts.sum() ** 2 / 2
    for column in columns:
        if seen > _MORE * (1 + chance):
            break
        chance *= _pairs(column) / (distinct * (distinct - 1.0) / 2)
    some, whole = columns[:: -(-len(columns) // _LOOKS)], sum(columns)
    near = min(_pairs(whole - column) for column in some) * len(columns)
    return seen > _MORE * (1 + chance + near)


def _too_even(counts: np.ndarray) -> bool:
    k = counts.astype(float)
    first, second, third = k.sum(), np.sum(k * (k - 1)), np.sum(k * (k - 1) * (k - 2))
    return bool(second**2 > _NOTED * first * third)  # copies made c times break Cauchy-Schwarz by (c - 1)/(c - 2)


def _in_multiples(counts: np.ndarray) -> bool:
    """More kinds of rows that are there a multiple of some g times than draws of any law leave (Hoeffding)."""
    chance = np.sqrt(_ODDS / (2 * max(len(counts), 1)))
    return any(np.mean(counts % g == 0) > 1 / min(g, 3) + chance for g in range(2, _TIMES + 1))
