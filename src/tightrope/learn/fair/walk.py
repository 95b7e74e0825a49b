"""The walk along a path of classifiers, the safest first, as far as unseen rows show that what was asked is kept.

Paths are of thresholds on smoothed rates (`paths.py`), or on the covariance of score and group (`by_covariance.py`).

Every point is trained on some rows and decides about others. Its decisions pass if for every ordered pair of groups a score
test says, with the full confidence, that the rates are as alike as was asked: "all pairs pass" needs no Bonferroni, because
it is wrong only where the test of one wrong pair is. The points are tested one at a time, in an order that no row of the
judge had a say in, up to the first that fails (`confidence.fixed_sequence`), and the most accurate one that passed is used.
Several paths share the error between them.

"cross-fit": each of the folds is judged by a model of the others, and the model handed out is trained on all rows. Where it
decides otherwise than the models of the folds, as it may where scores are tied, the rates that are tested are moved to its
own (`Partition.views`). "holdout": a part of the rows judges, and the model that was judged is the one handed out.
docs/fair_rates.md has the arguments and their conditions.
"""

import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

from tightrope.confidence import TWO_SIDED, USUAL, effective_ratio_lower, fixed_sequence
from tightrope.learn.fair.by_rates import RatesRun
from tightrope.learn.fair.paths import PATHS, Part
from tightrope.learn.fair.rate_rule import RateRule
from tightrope.learn.fair.rates import MEANS
from tightrope.learn.fair.refusal import Refused, refusal
from tightrope.learn.fair.split import Partition
from tightrope.learn.fair.task import Task
from tightrope.learn.fair.training import LinearScore
from tightrope.learn.fairness.notions import Cells, cells_of, effective_rates

# the report says what the rule costs at each: even odds, four to one, and the usual one
CONFIDENCES = (0.5, 0.8, USUAL)


class Walk:
    """Paths trained on some rows and judged on others."""

    def __init__(self, task: Task, asked: RateRule, *, judge: str, folds: int, confidence: float, seed: int):
        assert task.sensitive is not None
        self._task, self._asked, self._confidence, self._judged_by = task, asked, confidence, judge
        self._cells = cells_of(task.sensitive, task.y > 0, task.notion)
        _refuse_empty(self._cells)
        self._split = Partition(task, judge, folds, seed)
        self._judge = Judge.of(task, self._cells, np.sort(np.concatenate(self._split.judged)), asked)
        self._handed_out: dict[tuple[str, float], LinearScore] = {}

    @property
    def trained(self) -> list[Task]:
        """The tasks of the parts that train; the last is that of the model handed out."""
        return [self._task.take(rows) for rows in self._split.trained]

    @cached_property
    def _parts(self) -> list[Part]:
        parts = zip(self.trained, self._split.trained, strict=True)
        return [Part(task, self._cells.take(rows), self._asked) for task, rows in parts]

    def choose(self, paths: Sequence[str]) -> RatesRun:
        """The most accurate point of these paths that passed: trained on all rows, unless the judged one is kept."""
        frontier = self.frontier(paths, whole=False)
        passed = frontier[frontier["passed"]]
        if passed.empty:
            every = len(paths) == len(PATHS)
            raise refusal(self._asked, self._task, self.frontier(paths), confidence=self._confidence, every=every)
        wanted = passed[self._wanted(passed)]
        if wanted.empty:
            low, high = passed["selected"].min(), passed["selected"].max()
            raise Refused(
                f"{self._asked.sentence} can be promised, but not with a share selected within {self._asked.selected}: it "
                f"is {low:.3f} to {high:.3f} where the rule is kept. Ask for a wider interval, or for less fairness.",
                frontier,
            )
        return self._ended(wanted.iloc[int(np.argmax(wanted["accuracy"]))], frontier, len(paths))

    def _ended(self, best: Any, frontier: pd.DataFrame, paths: int) -> RatesRun:
        """The report of a walk that ended at this point of its frontier."""
        name, threshold, part = str(best["path"]), float(best["threshold"]), self._parts[-1]
        model, recipe, beside = self._handed_out[name, threshold], PATHS[name], self._beside(frontier, paths)
        point, limits = model.point, model.limits
        assert point is not None
        assert limits is not None
        return RatesRun(
            path=name,
            threshold=threshold,
            objective=part.rates.values(point.x, point.z, recipe, limits)[0],
            constraints=pd.Series(part.rates.constraints(point.z, recipe, limits), index=part.names(limits)),
            dual=point.multipliers,
            settled=point.settled,
            frontier=frontier,
            coef=model.coef,
            intercept=model.intercept,
            sentence=self._sentence(best, beside),
            beside=beside,
        )

    def _sentence(self, best: Any, beside: pd.DataFrame) -> str:
        """What was asked, and what the rows that judge show of the point that was taken."""
        column, side = self._asked.column, "at least" if self._asked.is_ratio else "at most"
        constant, selects, better = float(beside["accuracy"].iloc[1]), beside.index[1], ""
        if constant > best["accuracy"]:
            better = f" A constant is right more often: {selects} has accuracy {constant:.4f}."
            if self._asked.selected is None:
                better += f" This classifier selects {best['selected']:.3f}; selected=(low, high) bounds that share."
            warnings.warn(better.strip(), stacklevel=6)  # where fit was called
        held = "rates of the rows trained on" if PATHS[str(best["path"])] is MEANS else "smoothed rates"
        return (
            f"{self._asked.sentence} is kept with {self._confidence:.0%} confidence: {column} is {best[column]:.3f}, {side} "
            f"{best[f'{column}_bound']:.3f}, and accuracy {best['accuracy']:.4f}, by rows not trained on "
            f"({self._judged_by}). Path {best['path']}, {held} held at {best['threshold']:g}.{better}"
        )

    def _wanted(self, points: pd.DataFrame) -> "pd.Series[bool]":
        """Which points select as many as was asked for, by estimate."""
        return points["selected"].between(*(self._asked.selected or (-np.inf, np.inf)))

    def _beside(self, frontier: pd.DataFrame, paths: int) -> pd.DataFrame:
        """Accuracy, p%-rule and share selected without the rule, of a constant, and at other confidences."""
        everybody = np.full(len(self._task.y), float(self._judge.weight @ self._judge.positive >= 0.5))
        rows: dict[Any, Any] = {
            "without the rule": self._judge.row(self._views([part.plain for part in self._parts]), self._confidence),
            "everybody selected" if everybody[0] else "nobody selected": self._judge.row([everybody], self._confidence),
        }
        for confidence in CONFIDENCES:
            heads = [
                part.head(fixed_sequence(part["score"] >= _critical(confidence, paths)))
                for _, part in frontier.groupby("path", sort=False)
            ]
            passed = pd.concat(heads)
            passed = passed[self._wanted(passed)].to_dict("records")
            rows[f"{confidence:.0%} confidence"] = max(passed, key=lambda row: row["accuracy"], default={})
        columns = ["accuracy", self._asked.column, "selected"]
        return pd.DataFrame.from_dict(rows, orient="index").reindex(columns=columns)

    def frontier(self, paths: Sequence[str], whole: bool = True) -> pd.DataFrame:
        """A row for each point of the paths; without `whole`, up to the first of each path that fails at any confidence."""
        found = [
            self.table(name, self._asked.path, [part.path(name) for part in self._parts], len(paths), whole)
            for name in paths
        ]
        return pd.concat(found, ignore_index=True)

    def table(
        self,
        name: str,
        thresholds: Iterable[float],
        models: Sequence[Iterable[LinearScore]],
        paths: int,
        whole: bool = True,
    ) -> pd.DataFrame:
        """A row for each threshold of one of several paths, the safest first, by the models that each part trained."""
        critical, rows = _critical(self._confidence, paths), []
        lowest = min(critical, _critical(min(CONFIDENCES), paths))
        for threshold, *point in zip(thresholds, *models, strict=True):
            self._handed_out[name, threshold] = point[-1]
            found = self._judge.row(self._views(point), 1 - (1 - self._confidence) / paths)
            rows.append({"path": name, "threshold": threshold, **found})
            if found["score"] < lowest and not whole:
                break
        passed = fixed_sequence(row["score"] >= critical for row in rows)
        return pd.DataFrame(rows).assign(passed=np.arange(len(rows)) < passed)

    def _views(self, models: Sequence[LinearScore]) -> list[np.ndarray]:
        """The decisions of the last of these, seen as `Partition.views` does."""
        coef, intercept = np.stack([m.coef for m in models], axis=1), np.array([m.intercept for m in models])
        return self._split.views(self._task.X @ coef + intercept > 0)


class Judge(NamedTuple):
    """Rows that decisions are judged by. A decision may be any number: for a mean of some, what a row adds to it.

    What is judged are views of the same decisions; what is said of them is what the least favourable view says.
    """

    rows: np.ndarray
    positive: np.ndarray
    weight: np.ndarray  # adding up to one
    means: np.ndarray  # (cells, rows)
    cells: Cells
    asked: RateRule

    @classmethod
    def of(cls, task: Task, cells: Cells, rows: np.ndarray, asked: RateRule) -> "Judge":
        """The judge of decisions about these rows of a task."""
        weight, cells = task.judged[rows], cells.take(rows)
        return cls(rows, task.y[rows] > 0, weight / weight.sum(), cells.means(weight), cells, asked)

    def row(self, views: Sequence[np.ndarray], confidence: float) -> dict[str, Any]:
        """What can be said of decisions: estimates, two-sided 95 % intervals, and a bound with this confidence.

        The score is the smallest of a pair; what was asked is kept, with confidence 1 - alpha, if it is above that quantile.
        """
        counts = self._counts(views[0])
        tested = [pair for view in views for pair in self._counts(view)]
        scores = [self.asked.score(*pair) for pair in tested]
        binding = self.cells.pairs[int(np.argmin(scores)) % len(counts)]
        ratios = np.array([_ratio(*pair) for pair in counts])
        worst = int(np.argmin(np.where(np.isnan(ratios), np.inf, ratios)))
        a, n_a, b, n_b = counts[worst]
        above = effective_ratio_lower(b, n_b, a, n_a, 0.975)
        hits = np.where(self.positive, views[0][self.rows], 1 - views[0][self.rows])
        right = self.weight @ hits
        error = TWO_SIDED * np.sqrt(self.weight**2 @ (hits - right) ** 2)
        row: dict[str, Any] = {
            "accuracy": right,
            "accuracy_low": right - error,
            "accuracy_high": right + error,
            "p_rule": ratios[worst],
            "p_rule_low": effective_ratio_lower(a, n_a, b, n_b, 0.975),
            "p_rule_high": min(1.0, 1 / above) if above > 0 else 1.0,
            "p_rule_bound": min(effective_ratio_lower(*pair, confidence) for pair in tested),
            "selected": float(self.weight @ views[0][self.rows]),
            "group": self.cells.names[binding[0]],
            "against": self.cells.names[binding[1]],
            "score": min(scores),
        }
        if not self.asked.is_ratio:
            row["difference"] = max(b / n_b - a / n_a for a, n_a, b, n_b in counts)
            row["difference_bound"] = max(self.asked.bound(*pair, confidence) for pair in tested)
        return row

    def _counts(self, view: np.ndarray) -> list[tuple[float, float, float, float]]:
        """For each ordered pair a, n_a, b, n_b: how many were decided positive, of how many."""
        rates, n = effective_rates(self.means, view[self.rows])
        x = n * rates
        return [(float(x[a]), float(n[a]), float(x[b]), float(n[b])) for a, b in self.cells.pairs]


def _critical(confidence: float, paths: int) -> float:
    """The score that has to be reached where several paths share the error."""
    return float(ndtri(1 - (1 - confidence) / paths))


def _ratio(a: float, n_a: float, b: float, n_b: float) -> float:
    return (a / n_a) / (b / n_b) if b > 0 and n_a > 0 else float("nan")


def _refuse_empty(cells: Cells) -> None:
    empty = [name for name, count in zip(cells.names, cells.members.sum(axis=1), strict=True) if count < 2]
    if empty:
        raise ValueError(
            f"Fewer than two rows with weight are {', '.join(empty)}: there is no rate to compare. Leave such groups out, "
            "or merge them with others."
        )
