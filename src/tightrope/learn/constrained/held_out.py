"""Rows that a model was not trained on: their scores and labels, and what the metrics are at every threshold.

A rule selects the rows whose score is above a cut. Cuts go down, so that every rule selects what the one before it did.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tightrope.learn.constrained.asked import COST, METRICS, Constraint, Counts


class HeldOut(NamedTuple):
    """Scores, labels, weights and groups of rows.

    Attributes:
        score: (n,), higher for rows that are more likely positive.
        positive: (n,), booleans.
        weight: (n,), positive; all ones where rows count alike.
        groups: for each (attribute, group), a mask of its rows.
        most: the largest weight that a negative row can have, and a positive one; those to come included.
        kept: (n,), the scores by the model that is handed out, where that is another; None otherwise.
        draw: (n,), a number that copies of a row share; None where every row is a draw.
    """

    score: np.ndarray
    positive: np.ndarray
    weight: np.ndarray
    groups: Mapping[tuple[str, Any], np.ndarray]
    most: tuple[float, float] = (1.0, 1.0)
    kept: np.ndarray | None = None
    draw: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> "HeldOut":
        """Some of the rows, by number or by a mask."""
        groups = {name: mask[rows] for name, mask in self.groups.items()}
        kept, draw = (None if part is None else part[rows] for part in (self.kept, self.draw))
        return HeldOut(self.score[rows], self.positive[rows], self.weight[rows], groups, self.most, kept, draw)

    def of(self, group: tuple[str, Any] | None) -> "HeldOut":
        """The rows of a group; all of them for None."""
        return self if group is None else self.take(self.groups[group])

    def once(self) -> "HeldOut":
        """The rows with every draw once."""
        return self if self.draw is None else self.take(np.unique(self.draw, return_index=True)[1])._replace(draw=None)

    def views(self) -> Iterator["HeldOut"]:
        """Rows by each of which a limit has to be shown.

        - Cross-fitted scores are of models that have not seen the rows, and that are not handed out; the one that is has
          seen them. Its decisions may differ from all of theirs where a lump of tied rows is on the other side of the
          threshold, and it may know its own rows by heart. The first shows in its own scores, the second in theirs.
        - Copies of rows are fewer draws than rows; and rows that are taken for copies may be draws.
        """
        for rows in (self,) if self.draw is None else (self, self.once()):
            yield rows._replace(kept=None, draw=None)
            if rows.kept is not None:
                yield rows._replace(score=rows.kept, kept=None, draw=None)

    def about(self, name: str) -> tuple["HeldOut", float]:
        """The rows that a metric is about, and the largest weight that one of these can have."""
        if name == COST or not METRICS[name].within_a_class:
            return self, max(self.most)
        positive = METRICS[name].rows == "positive rows"
        return self.take(self.positive == positive), self.most[positive]

    def weighted(self, name: str) -> bool:
        """True where some of the rows that a metric is about, seen or to come, may count less than others.

        Where all that were seen have the largest weight, counts are judged: rare rows of less weight move a weighted share
        less than they move the share of rows.
        """
        rows, most = self.about(name)
        return bool(np.any(rows.weight != most))

    def cuts(self) -> np.ndarray:
        """The cuts that tell these rows apart, from nobody selected to everybody."""
        scores = self.score if self.kept is None else np.append(self.score, self.kept)
        return np.append(np.unique(scores)[::-1], -np.inf)

    def counts(self, cuts: np.ndarray, power: int = 1) -> Counts:
        """What is selected above each cut: sums of weights, or of a power of them."""
        above, whole = [], []
        for rows in (self.positive, ~self.positive):
            order = np.argsort(self.score[rows])
            summed = np.concatenate([[0.0], np.cumsum(self.weight[rows][order] ** power)])
            above.append(summed[-1] - summed[np.searchsorted(self.score[rows][order], cuts, side="right")])
            whole.append(summed[-1])
        return Counts(*above, *whole)

    def estimate(self, name: str, cuts: np.ndarray, costs: tuple[float, float] | None = None) -> np.ndarray:
        """A metric at each cut; NaN where it is a share of no rows at all."""
        counts = self.counts(cuts)
        everybody = counts.all_positive + counts.all_negative
        if name == COST:
            assert costs is not None
            lost = costs[0] * counts.negative + costs[1] * (counts.all_positive - counts.positive)
            return _ratio(lost, np.full(len(cuts), everybody))
        metric = METRICS[name]
        return _ratio(metric.hits(counts), np.broadcast_to(metric.of(counts), cuts.shape))

    def effective(self, name: str, cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Hits of n rows that tell as much about a share as these do: counts themselves where rows count alike.

        Otherwise n is Kish's, (sum w)^2 / sum w^2, or what the variance of the weighted share says where that is less.
        """
        metric, weights, squares = METRICS[name], self.counts(cuts), self.counts(cuts, power=2)
        hits, of = metric.hits(weights), np.broadcast_to(metric.of(weights), cuts.shape)
        hits2, of2 = metric.hits(squares), np.broadcast_to(metric.of(squares), cuts.shape)
        share = np.clip(np.nan_to_num(_ratio(hits, of)), 0, 1)
        n = np.nan_to_num(_ratio(of**2, of2))
        variance = _ratio(hits2 * (1 - share) ** 2 + (of2 - hits2) * share**2, of**2)
        by_variance = _ratio(share * (1 - share), variance)
        n = np.fmin(n, by_variance) if self.weighted(name) else n
        return share * n, n

    def whole_counts(self, name: str, cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Hits and rows as whole numbers, each row counted once."""
        counts, metric = self._replace(weight=np.ones(len(self.weight))).counts(cuts), METRICS[name]
        return np.rint(metric.hits(counts)), np.rint(np.broadcast_to(metric.of(counts), cuts.shape))

    def losses(self, constraint: Constraint, cuts: np.ndarray, costs: Any) -> tuple[np.ndarray, float, float]:
        """(n, cuts) values with a mean of at most 0 where the constraint holds, and the range that they can have.

        For a share with weights that is w (hit - limit) for the rows that it is a share of and 0 for others; for the cost it
        is what a row costs, less the limit. The range is that of the largest weight there can be.
        """
        rows, most = self.of(constraint.group).about(constraint.metric)
        limit = constraint.limit
        selected = rows.score[:, None] > cuts
        positive = rows.positive[:, None]
        if constraint.metric == COST:
            value = costs[0] * (selected & ~positive) + costs[1] * (~selected & positive) - limit
            low, high = -limit, max(costs) - limit
        else:
            one = Counts(selected & positive, selected & ~positive, positive + 0, ~positive + 0)
            one = Counts(*(part.astype(float) for part in one))
            metric = METRICS[constraint.metric]
            sign = 1 if constraint.at_most else -1
            value = sign * (metric.hits(one) - limit * metric.of(one))
            low, high = (-limit, 1 - limit) if constraint.at_most else (limit - 1, limit)
        return value * rows.weight[:, None], low * most, high * most


class Judges(NamedTuple):
    """The rows that judge, and how they came to.

    Attributes:
        rows: their scores, by models that were not trained on them.
        cross_fitted: True where these models are not the one that is handed out.
        basis: a sentence on where the rows come from, with places for how many there are, and how many of them positive.
        share: how many of the rows given they are.
        trained_on: how many of them are copies of rows that their model was trained on.
    """

    rows: HeldOut
    cross_fitted: bool
    basis: str
    share: float = 1.0
    trained_on: int = 0


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(b > 0, a / b, np.nan)
