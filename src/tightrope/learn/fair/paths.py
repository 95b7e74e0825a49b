"""Paths of classifiers from the fairest on: one for each way of smoothing, each point started from the one before."""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tightrope.learn.fair.rate_rule import RateRule
from tightrope.learn.fair.rates import BETWEEN, LOGISTIC, MEANS, SHARP, Limits, Point, RateProblem
from tightrope.learn.fair.task import Task
from tightrope.learn.fair.training import LinearScore, Scaling
from tightrope.learn.fairness.notions import Cells

PATHS = {"sharp": SHARP, "logistic": LOGISTIC, "covariance": MEANS}
"""What is smoothed: decisions sharply and the 0/1 loss with them, which is more accurate where rows are many; or decisions
softly, with the logistic loss, which fits less of the noise of the rates where they are few; or nothing: the mean scores
of groups are brought together, a convex problem, and the intercept is shifted until rates are alike."""

# Of the path "covariance"; all by hand.
GAPS = np.linspace(0, 1, 9)  # between mean scores, as shares of plain logistic regression's own
# By hand, where nothing else is said.
BETWEEN_GAPS = 4  # directions on the line from one solution to the next, which keep the gaps between
CUTS = 1024  # intercepts that are tried for each direction
LARGEST = 2**16  # cuts times pairs of groups; where there are many pairs, fewer cuts are tried, for the memory


class Part:
    """Rows that paths are trained on."""

    def __init__(self, task: Task, cells: Cells, asked: RateRule):
        self._asked, self._cells = asked, cells
        people = task.judged / task.judged.sum()  # rates are those of people, whatever a class weighs
        known = np.any(cells.members & (people > 0), axis=1)  # a cell without rows in this part has no rate
        self._pairs = cells.pairs[known[cells.pairs].all(axis=1)]
        self._positives = float(people @ (task.y > 0))
        self._scaling = Scaling.fit(task.X, task.weight, task.intercept)
        means = np.vstack([cells.means(people), people])
        features, weight = self._scaling.apply(task.X), task.weight / task.weight.sum()
        self.rates = RateProblem.of(features, task.y, weight, means, task.l2, task.intercept)

    def path(self, name: str) -> Iterator[LinearScore]:
        """A model for each threshold of `RateRule.path`, in its order."""
        if PATHS[name] is MEANS:
            yield from map(self._by_means, self._asked.path)
            return
        recipe, point = PATHS[name], self._fairest
        if recipe is SHARP:  # by a temperature between the two: from a soft start, a sharp one is found
            point = self.rates.solve(point, BETWEEN, self.limits(self._asked.path[0]))
        for threshold in self._asked.path:
            limits = self.limits(threshold)
            point = self.rates.solve(point, recipe, limits)
            yield LinearScore(*self._scaling.back(self.rates.basis @ point.x), point=point, limits=limits)

    @property
    def plain(self) -> LinearScore:
        """Logistic regression without a constraint."""
        point = self.rates.plain
        return LinearScore(*self._scaling.back(self.rates.basis @ point.x), point=point, limits=self.limits(1.0))

    def limits(self, threshold: float) -> Limits:
        """What is asked of the rates at a threshold."""
        return self._asked.limits(threshold, self._pairs, len(self._cells.names), self._positives)

    def names(self, limits: Limits) -> list[str]:
        """What limits are about."""
        cells = self._cells.names
        pairs = [f"{cells[a]} against {cells[b]}" for a, b in self._pairs]
        return [*pairs, "the share selected", "the share rejected"][: len(limits.constant)]

    @cached_property
    def _fairest(self) -> Point:
        """The start of every path, from plain logistic regression by way of what is asked."""
        asked = 1 - self._asked.slack if self._asked.is_ratio else self._asked.slack
        point = self.rates.solve(self.rates.plain, LOGISTIC, self.limits(asked))
        return self.rates.solve(point, LOGISTIC, self.limits(self._asked.path[0]))

    # ---- by mean scores: the covariance ------------------------------------------------------------------------------

    def _by_means(self, threshold: float) -> LinearScore:
        """Of all gaps between mean scores and all intercepts, the most accurate ones on these rows that keep a threshold.

        Where none does, those with the most equal rates.
        """
        limits, tried = self.limits(threshold), self._tried
        excess = np.maximum(limits.matrix @ tried.rates + limits.constant[:, None], 0).sum(axis=0)
        best = int(np.argmax(np.where(excess <= excess.min() + 1e-12, tried.right, -np.inf)))
        gap = float(tried.gap[best])
        point = self._at_gap(gap)
        coef, intercept = self._scaling.back(self.rates.basis @ point.x)
        intercept -= float(tried.cut[best])
        return LinearScore(coef, intercept, point=point, limits=self._means_within(gap))

    @cached_property
    def _solved(self) -> list[Point]:
        """Logistic regression at each of `GAPS`; the last is the plain one."""
        points = [self.rates.plain._replace(multipliers=np.zeros(len(self._pairs)))]
        for gap in GAPS[-2::-1]:
            points.append(self.rates.solve(points[-1], MEANS, self._means_within(gap)))
        return points[::-1]

    def _at_gap(self, gap: float) -> Point:
        """Logistic regression at any gap: solutions are piecewise smooth in it."""
        after = max(1, int(np.searchsorted(GAPS, gap)))
        (a, b), share = self._solved[after - 1 : after + 1], (gap - GAPS[after - 1]) / (GAPS[after] - GAPS[after - 1])
        return Point(*(u + share * (v - u) for u, v in zip(a[:3], b[:3], strict=True)))

    def _means_within(self, gap: float) -> Limits:
        """No mean score above another by more than a share of the largest such gap of plain logistic regression."""
        each, matrix = np.arange(len(self._pairs)), np.zeros((len(self._pairs), len(self.rates.means)))
        matrix[each, self._pairs[:, 0]], matrix[each, self._pairs[:, 1]] = -1, 1
        largest = float(np.max(matrix @ (self.rates.means @ self.rates.plain.z)))
        return Limits(matrix, np.full(len(matrix), -gap * largest))

    @cached_property
    def _tried(self) -> "Tried":
        """What the scores of each gap decide at each cut; where there is no intercept, there is one cut, at 0."""
        gaps = np.linspace(0, 1, BETWEEN_GAPS * (len(GAPS) - 1) + 1)
        each = np.vstack([self.rates.means, self.rates.weight * self.rates.label])
        tried = [self._cut(gap, self._at_gap(gap).z, each) for gap in gaps]
        return Tried(*(np.concatenate(parts, axis=-1) for parts in zip(*tried, strict=True)))

    def _cut(self, gap: float, z: np.ndarray, each: np.ndarray) -> "Tried":
        """Cuts at equal distances, from half the share that has to be rejected to half of that which has to be selected."""
        some = z[:: max(1, len(z) // 4096)]  # is enough to say where to look
        floor, ceiling = self._asked.between(self._positives)
        low, high = np.quantile(some, [(1 - ceiling) / 2, 1 - floor / 2])
        count = max(2, min(CUTS, LARGEST // len(self._pairs)))
        cuts = np.zeros(2)
        if self._scaling.intercept and high > low:  # never at `low` itself, which may be the score of many rows
            cuts = low + (np.arange(count) + 0.5) * ((high - low) / count)
        steps = (z - cuts[0]) * ((len(cuts) - 1) / max(cuts[-1] - cuts[0], 1e-200))
        place = np.ceil(steps).clip(0, len(cuts)).astype(int)  # how many cuts lie below each score
        above = np.stack([np.bincount(place, part, len(cuts) + 1)[::-1].cumsum()[::-1][1:] for part in each])
        return Tried(np.full(len(cuts), gap), cuts, above[:-1], above[-1])


class Tried(NamedTuple):
    """Decisions "score above a cut": by which gap between mean scores, the rates of cells, and how many are right, up to a
    constant.
    """

    gap: np.ndarray
    cut: np.ndarray
    rates: np.ndarray  # (cells, tried)
    right: np.ndarray
