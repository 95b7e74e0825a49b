"""A p%-rule kept by a bound on the covariance: a path of thresholds, walked by its decisions as those of rates are.

Thresholds are solved by Newton's method from neighbour to neighbour. The problem is convex and its constraints are linear,
so solutions bend only where a constraint begins or ceases to bind. A line through the last two leads to within a Newton step
of the next: 24 thresholds take some thirty steps, each to a gap of 1e-8 or so. They have the problem of `rates.py` at
infinite temperature, where covariances take the place of rates.
"""

import numpy as np
import pandas as pd

from tightrope.learn.fair.rate_rule import RateRule
from tightrope.learn.fair.rates import MEANS, Limits, Point, RateProblem
from tightrope.learn.fair.refusal import refusal
from tightrope.learn.fair.split import TRAINING
from tightrope.learn.fair.task import Task
from tightrope.learn.fair.training import Built, LinearScore, Scaling, build, covariances, train
from tightrope.learn.fair.walk import Walk
from tightrope.learn.problems.fair import centred

SEARCHES = ("cross-validation", "batch")
LEVELS = 24  # thresholds on the path; by hand: a step is then a fifth of a threshold
SMALLEST = 0.003  # the smallest threshold on the path, as a share of the largest; by hand
BATCH_ROWS = 10_000  # rows that the paper's procedure looks at; the paper's
_ROUNDING = 1e-8
"""Derived, the root of what float64 resolves: a covariance of logarithms of odds and a group that is none; and what a
multiplier that changes by one leaves of a covariance to the next step, less than `rates.STABLE` of a rate since covariances
can always be met and points are so near that more would lead away."""
_WIDE = 100  # coefficients from which on curvature is not computed anew; measured: 400 take a third of the time
_VIOLATION = 1e-3  # a share of a threshold that may be missed, which decisions do not see; by hand


def choose(
    built: Built, p_rule: float, *, search: str, folds: int, confidence: float, seed: int
) -> tuple[float, pd.DataFrame]:
    """The largest threshold that keeps `p_rule`, found by one of `SEARCHES`, and the path it was chosen from.

    "cross-validation" walks the path as far as rows not trained on show the rule kept. "batch" is the paper's procedure:
    classifiers on 10,000 random rows, judged by their p%-rule on these same rows, and no confidence.
    """
    by_paper = search == "batch"
    if by_paper and len(built.task.y) > BATCH_ROWS:
        rows = np.random.default_rng(seed).permutation(len(built.task.y))[:BATCH_ROWS]
        built = build(built.task.take(np.sort(rows)))
    judge = TRAINING if by_paper else "cross-fit"
    table = walked(built, p_rule, judge=judge, folds=folds, confidence=confidence, seed=seed)
    if by_paper:
        table["passed"] = table["p_rule"] >= p_rule
    if not table["passed"].any():
        raise refusal(RateRule("ratio", 1 - p_rule), built.task, table, confidence=None if by_paper else confidence)
    return float(table["threshold"][table["passed"]].max()), table


def walked(
    built: Built, p_rule: float, *, judge: str = "cross-fit", folds: int, confidence: float, seed: int
) -> pd.DataFrame:
    """The points of a walk by the covariance: a row for each threshold, the smallest first, which is the safest."""
    thresholds = path_of_thresholds(built, seed)
    walk = Walk(built.task, RateRule("ratio", 1 - p_rule), judge=judge, folds=folds, confidence=confidence, seed=seed)
    models = [covariance_path(task, thresholds, seed)[::-1] for task in walk.trained]
    return walk.table("covariance", thresholds[::-1].tolist(), models, 1).drop(columns="path")


def path_of_thresholds(built: Built, seed: int) -> np.ndarray:
    """Thresholds from where the constraint begins to bind down, in equal ratios."""
    free = train(built.at(1e6), method="auto", passes=None, tol=1e-6, seed=seed, record=0)
    largest = float(np.max(np.abs(covariances(free.coef, built.task))))
    return max(largest, _ROUNDING) * np.geomspace(1.0, SMALLEST, LEVELS)


def covariance_path(task: Task, thresholds: np.ndarray, seed: int) -> list[LinearScore]:
    """A model for each threshold, the largest first."""
    scaling = Scaling.fit(task.X, task.weight, task.intercept)
    found = _by_newton(task, scaling, thresholds)
    return _one_by_one(task, thresholds, seed) if found is None else [LinearScore(*scaling.back(x)) for x in found]


def _by_newton(task: Task, scaling: Scaling, thresholds: np.ndarray) -> np.ndarray | None:
    """(L, d), coefficients of standardised features; None where it has not settled, or where the ball binds, of which it
    knows nothing."""
    assert task.sensitive is not None
    s = centred(task.sensitive, task.weight, task.y > 0, task.notion)
    # Covariances as shares of the largest threshold: their multipliers are then differences of losses.
    functionals, shares = s.T / (len(s) * thresholds[0]), thresholds / thresholds[0]
    weight = task.weight / task.weight.sum()
    rates = RateProblem.of(scaling.apply(task.X), task.y, weight, functionals, task.l2, task.intercept)
    both_sides = np.vstack([np.eye(len(functionals)), -np.eye(len(functionals))])
    points = [rates.plain._replace(multipliers=np.zeros(len(both_sides)))]
    for share in shares:
        limits = Limits(both_sides, np.full(len(both_sides), -share))
        quickly = _ahead(points, shares), len(rates.basis) < _WIDE
        # where the quick start is so near the solution that no step improves it, the last solution is the start
        for start, newton in (quickly, (points[-1], True)):
            point = rates.solve(start, MEANS, limits, _ROUNDING, newton)
            if point.settled and np.max(rates.constraints(point.z, MEANS, limits)) <= _VIOLATION * share:
                points.append(point)
                break
        else:
            return None
    found = np.stack([rates.basis @ point.x for point in points[1:]])
    return found if np.max(np.linalg.norm(found, axis=1)) <= task.radius else None


def _ahead(points: list[Point], shares: np.ndarray) -> Point:
    """Where to begin the next: on the line through the last two solutions. The first of the points is the plain one."""
    k = len(points) - 1  # the number of the next threshold
    if k < 2:
        return points[-1]
    ratio = (shares[k] - shares[k - 1]) / (shares[k - 1] - shares[k - 2])
    return Point(*(b + ratio * (b - a) for a, b in zip(points[-2][:3], points[-1][:3], strict=True)))


def _one_by_one(task: Task, thresholds: np.ndarray, seed: int) -> list[LinearScore]:
    """Within the ball, each from the one before."""
    built, each = build(task), []
    for threshold in thresholds:
        begun = {"warm_start": each[-1].result} if each else {}
        each.append(train(built.at(threshold), method="auto", passes=None, tol=1e-6, seed=seed, record=0, **begun))
    return each
