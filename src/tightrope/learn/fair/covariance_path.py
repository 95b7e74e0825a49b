"""Classifiers along a path of thresholds on the covariance, by Newton's method from neighbour to neighbour.

The problem is convex and its constraints are linear, so solutions bend only where a constraint begins or ceases to bind. A
line through the last two leads to within a Newton step of the next: 24 thresholds take some thirty steps, each to
a gap of 1e-8 or so. They have the problem of `rates.py` at infinite temperature, where covariances take the place of rates.
"""

import numpy as np

from tightrope.learn.fair.rates import MEANS, Limits, Point, Rates
from tightrope.learn.fair.task import Task
from tightrope.learn.fair.training import Scaling, build, train
from tightrope.learn.problems.fair import centred

_WIDE = 100  # coefficients from which on curvature is not computed anew; measured: 400 take a third of the time
_VIOLATION = 1e-3  # a share of a threshold that may be missed, which decisions do not see; by hand
_STABLE = 1e-8
"""As `rates.STABLE`, less since covariances can always be met and points are so near that more would lead away; by hand."""


def covariance_path(task: Task, thresholds: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (L, d) and intercepts (L,) at thresholds, the largest first."""
    scaling = Scaling.fit(task.X, task.weight, task.intercept)
    found = _by_newton(task, scaling, thresholds)
    return _one_by_one(task, thresholds, seed) if found is None else scaling.back_each(found)


def _by_newton(task: Task, scaling: Scaling, thresholds: np.ndarray) -> np.ndarray | None:
    """(L, d), coefficients of standardised features; None where it has not settled, or where the ball binds, of which it
    knows nothing."""
    assert task.sensitive is not None
    s = centred(task.sensitive, task.weight, task.y > 0, task.notion)
    # Covariances as shares of the largest threshold: their multipliers are then differences of losses.
    functionals, shares = s.T / (len(s) * thresholds[0]), thresholds / thresholds[0]
    weight = task.weight / task.weight.sum()
    rates = Rates.of(scaling.apply(task.X), task.y, weight, functionals, task.l2, task.intercept)
    both_sides = np.vstack([np.eye(len(functionals)), -np.eye(len(functionals))])
    points = [rates.plain._replace(multipliers=np.zeros(len(both_sides)))]
    for share in shares:
        limits = Limits(both_sides, np.full(len(both_sides), -share))
        quickly = _ahead(points, shares), len(rates.basis) < _WIDE
        for start, newton in (quickly, (points[-1], True)):  # ... and safely: a start may be too good to go on from
            point = rates.solve(start, MEANS, limits, _STABLE, newton)
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


def _one_by_one(task: Task, thresholds: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Within the ball, each from the one before."""
    built, each = build(task), []
    for threshold in thresholds:
        begun = {"warm_start": each[-1].result} if each else {}
        each.append(train(built.at(threshold), method="auto", passes=None, tol=1e-6, seed=seed, record=0, **begun))
    return np.stack([trained.coef for trained in each]), np.array([trained.intercept for trained in each])
