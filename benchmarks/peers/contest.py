"""What all contenders share: the problem, who judges an answer, and the contract."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.plain_slsqp import plain_slsqp
from studies.fair_logistic import C, Instance
from tightrope.datasets import adult_label_encoded

GAP, BATCH = 2e-3, 64


@dataclass(frozen=True)
class Run:
    """One run: how long it took, whether its answer is good enough, and what else is worth printing."""

    seconds: float
    reached: bool
    note: dict[str, float] = field(default_factory=dict)


class Adult:
    """Adult with its rows repeated `copies` times, and a judge in float64 who looks at the rows once.

    Repeating rows changes neither the mean loss nor the covariance, so the optimum is that of the rows themselves.
    """

    def __init__(self, copies: int = 1):
        X, y, self._group = adult_label_encoded()
        self._once = Instance(X, y, self._group)
        self.v = self._once.v  # the covariance of score and sensitive attribute is <v, x>
        self.X, self.y, self.s, self.group = (
            np.tile(a, (copies,) + (1,) * (a.ndim - 1)) for a in (X, y, self._once.s, self._group)
        )
        self.best = plain_slsqp(X, y, self.v, C, ftol=1e-15)
        self.optimum = self._once.value(self.best)
        self.p_rule = self.rule(X @ self.best > 0)

    def gap(self, x: np.ndarray) -> float:
        return self._once.value(np.asarray(x, np.float64)) - self.optimum

    def covariance(self, x: np.ndarray) -> float:
        return self._once.covariance(np.asarray(x, np.float64))

    def good(self, x: np.ndarray) -> bool:
        """Gap within the target and no violation; a part in 10^12 is left to rounding, which SLSQP needs."""
        return bool(np.isfinite(x).all() and abs(self.covariance(x)) <= C * (1 + 1e-12) and self.gap(x) <= GAP)

    def rule(self, positive: np.ndarray) -> float:
        """The p%-rule of the rows' decisions, or of their probabilities: the smaller rate over the larger."""
        rates = [positive[self._group == g].mean() for g in (0, 1)]
        return float(min(rates) / max(rates))

    def accuracy(self, positive: np.ndarray) -> float:
        return float(np.mean(np.where(self._once.y > 0, positive, 1.0 - positive)))

    @property
    def rows(self) -> np.ndarray:
        """The features, every row once."""
        return self._once.X


class Contender:
    """What the contest asks of a contender.

    `cheapest_first`: the grid is in order of cost, so the first setting that reaches the target in every seed is the best;
    otherwise all are tried. `compiles`: the first run costs more than the others. `looks_at_all_rows`: a run costs in
    proportion to the rows, so what ten times the rows will cost can be predicted. `retune`: a setting counts passes, so more
    rows ask for another one.
    """

    cheapest_first = False
    compiles = False
    looks_at_all_rows = True
    retune = False
    seeds = range(3)

    def __init__(self, adult: Adult):
        self.adult = adult

    def grid(self) -> list[dict[str, Any]]:
        """The settings to try."""
        raise NotImplementedError

    def run(self, setting: dict[str, Any], seed: int, limit: float) -> Run:
        """One run; those that step stop after `limit` seconds."""
        raise NotImplementedError

    def step(self) -> float:
        """Seconds of one step on a mini-batch: the best of several stretches, after one that warms up."""
        raise NotImplementedError
