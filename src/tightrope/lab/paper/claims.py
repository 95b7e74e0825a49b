"""What the paper says, in our words, and whether the runs show it. Verdicts are computed, never written by hand."""

import dataclasses
from collections.abc import Iterable
from typing import Literal

import numpy as np
from scipy.stats import rankdata

Verdict = Literal["reproduced", "partly", "not reproduced"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "partly", "not reproduced")

MUCH = 0.5
"""A number counts as much smaller than another up to this share of it; by hand."""

ALMOST_ZERO = 0.05
"""A violation counts as almost zero up to this share of its bound; by hand."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence, a verdict and the numbers behind it.

    Attributes:
        sentence: what is claimed.
        verdict: "reproduced", "partly" or "not reproduced".
        evidence: the numbers, with intervals over seeds.
        source: who claims it: "paper", "analysis" for what our own analysis of the paper predicts, or "beyond" for what we
            claim beyond it.
    """

    sentence: str
    verdict: Verdict
    evidence: str
    source: Literal["paper", "analysis", "beyond"] = "paper"

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise ValueError(f"Claim: verdict is {self.verdict!r}; expected one of {', '.join(VERDICTS)}.")

    def __str__(self) -> str:
        return f"{self.verdict.upper()} ({self.source}): {self.sentence}\n    {self.evidence}"


@dataclasses.dataclass(frozen=True)
class Band:
    """The median of a number over seeds, with its 10 % and 90 % quantiles."""

    low: float
    middle: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle:.4g} [{self.low:.4g}, {self.high:.4g}]"


def band(values) -> Band:
    """Median and 10 % to 90 % quantiles; values that are not known (NaN) do not count.

    Example:
        >>> print(band([1.0, 2.0, 3.0, float("nan")]))
        2 [1.2, 2.8]
    """
    known = np.asarray(values, float)
    known = known[~np.isnan(known)]
    if not len(known):
        return Band(np.nan, np.nan, np.nan)
    low, middle, high = np.quantile(known, [0.1, 0.5, 0.9])
    return Band(float(low), float(middle), float(high))


def decide(reproduced: bool, partly: bool = False) -> Verdict:
    """The verdict from its two conditions, of which the first is the stronger.

    Example:
        >>> decide(False, partly=True)
        'partly'
    """
    return "reproduced" if reproduced else "partly" if partly else "not reproduced"


def at_most(values, limit: float, slack: float) -> Verdict:
    """Whether a number stays below a limit: in nine of ten seeds; in the median and within `slack` more; or not.

    Example:
        >>> at_most([0.0, 0.1, 0.2], limit=0.3, slack=0.1), at_most([0.35, 0.36], limit=0.3, slack=0.1)
        ('reproduced', 'partly')
    """
    got = band(values)
    return decide(got.high <= limit, got.middle <= limit + slack)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The weakest of several verdicts.

    Example:
        >>> worst(["reproduced", "partly"])
        'partly'
    """
    return max(verdicts, key=VERDICTS.index)


def trend(x, runs, sign: int) -> tuple[Verdict, Band]:
    """Whether a number rises (sign 1) or falls (sign -1) with x, by Spearman's rank correlation in each seed.

    Args:
        x: the values of the abscissa, or a row of them per seed.
        runs: a row per seed, a column per value of x.
        sign: the direction claimed.

    Returns:
        "reproduced" if the correlation has the sign in nine of ten seeds and is at least 0.8 in the median, "partly" if
        the median has the sign; and the correlations' band.

    Example:
        >>> verdict, correlation = trend([1, 2, 3], [[3.0, 2.0, 1.0], [4.0, 3.0, 1.0]], sign=-1)
        >>> verdict, correlation.middle
        ('reproduced', -1.0)
    """
    runs = np.asarray(runs, float)
    got = band([_spearman(a, b) for a, b in zip(np.broadcast_to(np.asarray(x, float), runs.shape), runs, strict=True)])
    weakest = min(sign * got.low, sign * got.high)
    return decide(weakest > 0 and sign * got.middle >= 0.8, sign * got.middle > 0), got


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Of the pairs that are known; 0 where one of both does not vary, and so follows nothing."""
    known = ~(np.isnan(a) | np.isnan(b))
    a, b = a[known], b[known]
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])
