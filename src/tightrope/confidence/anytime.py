"""Means of bounded values, looked at whenever one likes: a bet that can be continued sample by sample.

Write values as X in [0, 1]. For a constant stake lambda <= 1/2, the wealth prod (1 + lambda (m - X_t)) is a supermartingale
wherever the mean is at least m, and so is a mixture of such wealths over many lambda. It ever reaches 1/alpha with
probability at most alpha (Ville; betting, Waudby-Smith & Ramdas 2024). It grows with m, so the rejected m are an interval.

log(1 + y) >= y - y^2/2 + y^3/3 - 0.43 y^4 for y >= -1/2, and the sum of the right side over samples is a polynomial in m
whose coefficients are sums of powers of X. So five numbers are the state: samples are added in any order and in batches of
any size, and a bound can be asked for with any confidence at any time. Stakes differ by factors of two, down to what is
right for 2^40 samples: a mixture of 21 of them costs less than having chosen the wrong one in advance.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from tightrope.confidence.means import checked_confidence, checked_range, checked_values

_STAKES = 0.5 ** np.arange(1, 22)
_WEIGHTS = np.full(len(_STAKES), 1 / len(_STAKES))
_QUARTIC = math.ceil(1600 * (math.log(2) - 1 / 2 - 1 / 8 - 1 / 24)) / 100  # 0.4237 rounded up


@dataclasses.dataclass(frozen=True)
class Anytime:
    """Sums from which upper bounds on means follow that hold at all times at once.

    Start with `Anytime.start(low, high)`, add samples with `add`, ask with `upper`. With probability `confidence`, no bound
    that is ever asked for is below the mean; so one may look after every batch, and stop when one likes.

    Example:
        >>> import numpy as np
        >>> values = np.random.default_rng(0).uniform(0, 1, (2000, 1))
        >>> seen = Anytime.start(low=[0.0], high=[1.0])
        >>> for batch in np.split(values, 20):
        ...     seen = seen.add(batch)
        >>> bool(0.5 < seen.upper(0.95)[0] < 0.55), seen.n
        (True, 2000)
    """

    low: np.ndarray
    high: np.ndarray
    n: int
    sums: np.ndarray  # (4, columns): of the powers 1 to 4 of the values, in units of the range, counted from its middle

    @classmethod
    def start(cls, low: Any, high: Any) -> "Anytime":
        """Nothing seen yet of values between low and high, numbers or one for each of several means."""
        low, high = np.broadcast_arrays(*(np.atleast_1d(np.asarray(b, float)) for b in (low, high)))
        checked_range(np.empty((0, low.size)), low, high)
        return cls(low.copy(), high.copy(), 0, np.zeros((4, low.size)))

    def add(self, values: Any) -> "Anytime":
        """With these samples too: rows with a column for each mean."""
        rows = checked_values(values)
        if rows.shape[1] != self.low.size:
            raise ValueError(f"values have {rows.shape[1]} columns; expected {self.low.size}, one for each mean.")
        checked_range(rows, self.low, self.high)
        y = (rows - (self.low + self.high) / 2) / (self.high - self.low)
        powers = np.stack([(y**k).sum(axis=0) for k in (1, 2, 3, 4)])
        return dataclasses.replace(self, n=self.n + len(rows), sums=self.sums + powers)

    @property
    def mean(self) -> np.ndarray:
        """The means of the samples so far; NaN before the first."""
        return (self.low + self.high) / 2 + (self.high - self.low) * (self.sums[0] / self.n if self.n else np.nan)

    def upper(self, confidence: float) -> np.ndarray:
        """For each mean an upper bound; all bounds on one mean, at whatever times, hold together with this confidence."""
        alpha = 1 - checked_confidence(confidence)
        if self.n == 0:
            return self.high.copy()
        low, high = np.maximum(self.sums[0] / self.n, -0.5), np.full(self.low.size, 0.5)
        ever = self._log_wealth(high) >= -np.log(alpha)
        for _ in range(60):
            middle = (low + high) / 2
            rejected = self._log_wealth(middle) >= -np.log(alpha)
            low, high = np.where(rejected, low, middle), np.where(rejected, middle, high)
        return (self.low + self.high) / 2 + (self.high - self.low) * np.where(ever, high, 0.5)

    def below(self, level: Any, confidence: float) -> np.ndarray:
        """For each mean whether it is shown to be below a level, as `upper` would show it."""
        alpha = 1 - checked_confidence(confidence)
        m = (np.asarray(level, float) - (self.low + self.high) / 2) / (self.high - self.low)
        return (self.n > 0) & (m > -0.5) & (self._log_wealth(m) >= -np.log(alpha)) | (m > 0.5)

    def _log_wealth(self, m: np.ndarray) -> np.ndarray:
        """A lower bound on the logarithm of the mixture's wealth against means m."""
        s1, s2, s3, s4 = self.sums
        d1 = self.n * m - s1  # sums of (m - y)^k
        d2 = self.n * m**2 - 2 * m * s1 + s2
        d3 = self.n * m**3 - 3 * m**2 * s1 + 3 * m * s2 - s3
        d4 = self.n * m**4 - 4 * m**3 * s1 + 6 * m**2 * s2 - 4 * m * s3 + s4
        stake = _STAKES[:, None]
        each = stake * d1 - stake**2 * d2 / 2 + stake**3 * d3 / 3 - _QUARTIC * stake**4 * d4
        return np.logaddexp.reduce(each + np.log(_WEIGHTS)[:, None], axis=0)
