"""What is asked of the rates of groups: that they be alike, by their ratio or by their difference."""

from typing import NamedTuple

import numpy as np

from tightrope.confidence import difference_score, difference_upper, effective_ratio_lower, ratio_score
from tightrope.learn.fair.rates import FLOOR, Limits

STEPS = (
    0.1, 0.25, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2.0, 2.5,
)  # fmt: skip
"""A path, as shares of the slack that is asked for: from a tenth of it on, in steps of a twentieth where the decision falls,
which is near 1 since rows not trained on show nearly what was trained; by hand (docs/fair_rates.md)."""


class RateRule(NamedTuple):
    """A bound on how unlike two rates may be.

    Attributes:
        kind: "ratio", r_g >= (1 - slack) r_h, or "difference", r_h - r_g <= slack; for all ordered pairs of groups.
        slack: a share; 0.2 for the 80 % rule.
        selected: between which shares of everybody the share selected is to lie; None: it is left to accuracy.
    """

    kind: str
    slack: float
    selected: tuple[float, float] | None = None

    @property
    def is_ratio(self) -> bool:
        """Whether it is the ratio of rates that is bounded."""
        return self.kind == "ratio"

    @property
    def column(self) -> str:
        """What it is called, by a user and in a table of points."""
        return "p_rule" if self.is_ratio else "difference"

    @property
    def sentence(self) -> str:
        """As a user wrote it: "p_rule=0.8" or "difference=0.1"."""
        return f"{self.column}={1 - self.slack if self.is_ratio else self.slack:g}"

    @property
    def path(self) -> np.ndarray:
        """Thresholds from the safest on: smallest ratios, falling, or largest differences, rising."""
        slack = self.slack * np.array(STEPS)
        return np.round(1 - slack[slack < 1] if self.is_ratio else slack[slack < 1], 12)

    def between(self, positives: float) -> tuple[float, float]:
        """The floor and the ceiling of the share selected in training, where a share of labels is positive."""
        return self.selected or (FLOOR * positives, 1 - FLOOR * (1 - positives))

    def limits(self, threshold: float, pairs: np.ndarray, cells: int, positives: float) -> Limits:
        """The threshold for pairs of cells, and the floor and the ceiling of the share selected of everybody.

        The rate of everybody comes after those of the cells.
        """
        each, m = np.arange(len(pairs)), len(pairs)
        matrix, constant = np.zeros((m + 2, cells + 1)), np.zeros(m + 2)
        matrix[each, pairs[:, 0]] = -1
        matrix[each, pairs[:, 1]] = threshold if self.is_ratio else 1
        constant[:m] = 0.0 if self.is_ratio else -threshold
        matrix[m:, cells] = -1, 1
        floor, ceiling = self.between(positives)
        constant[m:] = floor, -ceiling
        return Limits(matrix, constant)

    def score(self, a: float, n_a: float, b: float, n_b: float) -> float:
        """How many standard errors the pair lies on the right side, of a out of n_a decided positive and b of n_b."""
        if min(n_a, n_b) <= 0 or n_a + n_b <= 1:
            return -np.inf
        if self.is_ratio:
            return ratio_score(1 - self.slack, a, n_a, b, n_b)
        return difference_score(self.slack, a, n_a, b, n_b)

    def bound(self, a: float, n_a: float, b: float, n_b: float, confidence: float) -> float:
        """The smallest ratio p_a / p_b, or the largest difference p_b - p_a, that a score test does not reject."""
        function = effective_ratio_lower if self.is_ratio else difference_upper
        return function(a, n_a, b, n_b, confidence)
