"""Paths of classifiers from the fairest on: one for each way of smoothing, each point started from the one before."""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tightrope.estimators.fair.asked import Asked
from tightrope.estimators.fair.rates import BETWEEN, LOGISTIC, SHARP, Limits, Point, Rates
from tightrope.estimators.fair.task import Task
from tightrope.estimators.fair.training import Scaling
from tightrope.fairness.notions import Cells

PATHS = {"sharp": SHARP, "logistic": LOGISTIC}
"""What is smoothed: decisions sharply and the 0/1 loss with them, which is more accurate where rows are many; or decisions
softly, with the logistic loss, which fits less of the noise of the rates where they are few."""


class Model(NamedTuple):
    """A linear score for features as given, and the point of the path that it is."""

    coef: np.ndarray
    intercept: float
    point: Point

    def score(self, X: np.ndarray) -> np.ndarray:
        """The scores of rows; positive ones are decided positive."""
        return X @ self.coef + self.intercept


class Part:
    """Rows that paths are trained on."""

    def __init__(self, task: Task, cells: Cells, asked: Asked):
        self._asked, self._cells = asked, cells
        people = task.judged / task.judged.sum()  # rates are those of people, whatever a class weighs
        known = np.any(cells.members & (people > 0), axis=1)  # a cell without rows in this part has no rate
        self._pairs = cells.pairs[known[cells.pairs].all(axis=1)]
        self._positives = float(people @ (task.y > 0))
        self._scaling = Scaling.fit(task.X, task.weight, task.intercept)
        means = np.vstack([cells.means(people), people])
        features, weight = self._scaling.apply(task.X), task.weight / task.weight.sum()
        self.rates = Rates.of(features, task.y, weight, means, task.l2, task.intercept)

    def path(self, name: str) -> Iterator[Model]:
        """A model for each threshold of `Asked.path`, in its order."""
        recipe, point = PATHS[name], self._fairest
        if recipe is SHARP:  # by a temperature between the two: from a soft start, a sharp one is found
            point = self.rates.solve(point, BETWEEN, self.limits(self._asked.path[0]))
        for threshold in self._asked.path:
            point = self.rates.solve(point, recipe, self.limits(threshold))
            yield Model(*self._scaling.back(self.rates.basis @ point.x), point)

    def limits(self, threshold: float) -> Limits:
        """What is asked of the rates at a threshold."""
        return self._asked.limits(threshold, self._pairs, len(self._cells.names), self._positives)

    @property
    def names(self) -> list[str]:
        """What the limits are about."""
        cells = self._cells.names
        return [*(f"{cells[a]} against {cells[b]}" for a, b in self._pairs), "the share selected", "the share rejected"]

    @cached_property
    def _fairest(self) -> Point:
        """The start of every path, from plain logistic regression by way of what is asked."""
        asked = 1 - self._asked.slack if self._asked.is_ratio else self._asked.slack
        point = self.rates.solve(self.rates.plain, LOGISTIC, self.limits(asked))
        return self.rates.solve(point, LOGISTIC, self.limits(self._asked.path[0]))
