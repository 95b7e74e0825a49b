"""Accuracy against fairness along a path of thresholds, from predictions on rows that a classifier has not seen."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold

from tightrope.learn.fair.covariance_path import covariance_path
from tightrope.learn.fair.refusal import refusal
from tightrope.learn.fair.task import Task
from tightrope.learn.fair.training import Built, build, covariances, train
from tightrope.learn.fairness.metrics import PRuleBounds, bounds_of_means
from tightrope.learn.fairness.notions import cells_of, parts_of

SEARCHES = ("cross-validation", "batch")
LEVELS = 24  # thresholds on the path
SMALLEST = 0.003  # threshold on the path, as a share of the largest
_NONE = 1e-8  # is no covariance of a score, which is a logarithm of odds, and a group
BATCH_ROWS = 10_000  # are what the paper's procedure looks at


class ChosenThreshold(NamedTuple):
    """A threshold that keeps the p%-rule, and the path it was chosen from."""

    threshold: float
    frontier: pd.DataFrame


def choose(built: Built, p_rule: float, *, search: str, folds: int, confidence: float, seed: int) -> ChosenThreshold:
    """The largest threshold that keeps `p_rule`, found by one of `SEARCHES`.

    "cross-validation" wants the bound on the p%-rule out of fold to keep it. "batch" is the paper's procedure: classifiers
    on 10,000 random rows, judged by their p%-rule on these same rows, and no confidence.
    """
    if search == "cross-validation":
        table = compute_frontier(built, folds=folds, confidence=confidence, seed=seed)
        how = f"with {confidence:.0%} confidence"
        return ChosenThreshold(largest_that_keeps(table, p_rule, "p_rule_bound", how, built.task), table)
    rows = np.random.default_rng(seed).permutation(len(built.task.y))[:BATCH_ROWS]
    part = built if len(rows) == len(built.task.y) else build(built.task.take(np.sort(rows)))
    thresholds = path_of_thresholds(part, seed)
    decided = _decisions(part.task, thresholds, part.task.X, seed)
    table = judge_path(part.task, thresholds, decided, confidence, seed)
    return ChosenThreshold(
        largest_that_keeps(table, p_rule, "p_rule", "on the rows it was solved on", part.task), table
    )


def compute_frontier(built: Built, *, folds: int, confidence: float, seed: int) -> pd.DataFrame:
    """A row per threshold, the largest first: accuracy and p%-rule of classifiers trained on the other folds.

    The largest threshold is the covariance of the classifier without constraint, from where on it binds. The column
    p_rule_bound holds with probability `confidence` for all thresholds at once, so that one may choose by it; p_rule_low
    and p_rule_high, accuracy_low and accuracy_high are two-sided intervals for one threshold at a time. The columns group
    and against name the pair of groups whose bound is the lowest.
    """
    task = built.task
    assert task.sensitive is not None
    thresholds = path_of_thresholds(built, seed)
    strata = task.sensitive.strata(task.y > 0)  # every fold has some of each
    final = _decisions(task, thresholds, task.X, seed)
    unseen, mean = np.zeros_like(final), np.zeros(final.shape)
    for fit_on, rows in StratifiedKFold(folds, shuffle=True, random_state=seed).split(task.X, strata):
        decided = _decisions(task.take(fit_on), thresholds, task.X, seed)
        unseen[rows] = decided[rows]
        mean += decided / folds
    # as in `Walk._views`: moved to the decisions of the classifier handed out, out of fold, and its own
    return judge_path(task, thresholds, unseen + (final - mean), confidence, seed, (unseen, final))


def path_of_thresholds(built: Built, seed: int) -> np.ndarray:
    """Thresholds from where the constraint begins to bind down, in equal ratios."""
    free = train(built.at(1e6), method="auto", passes=None, tol=1e-6, seed=seed, record=0)
    largest = float(np.max(np.abs(covariances(free.coef, built.task))))
    return max(largest, _NONE) * np.geomspace(1.0, SMALLEST, LEVELS)


def _decisions(task: Task, thresholds: np.ndarray, X: np.ndarray, seed: int) -> np.ndarray:
    """Which rows of X a classifier of each threshold decides positive."""
    coef, intercept = covariance_path(task, thresholds, seed)
    return X @ coef.T + intercept > 0


def largest_that_keeps(table: pd.DataFrame, p_rule: float, column: str, how: str, task: Task) -> float:
    """The largest threshold of a path that keeps the rule by this column; refused where none does."""
    enough = table[table[column] >= p_rule]
    if not len(enough):
        raise refusal(p_rule, table, task, column, how)
    return float(enough["threshold"].max())


def judge_path(
    task: Task,
    thresholds: np.ndarray,
    decided: np.ndarray,
    confidence: float,
    seed: int,
    others: Sequence[np.ndarray] = (),
) -> pd.DataFrame:
    """The rows of a frontier: what classifiers, a column of decisions each, are worth on rows they were not trained on.

    `others` are other views of the same decisions: the bound is the lowest that any of them has.
    """
    bounds, pairs = _bounds(task, decided, confidence, seed)
    lower = np.min([bounds.lower, *(_bounds(task, other, confidence, seed)[0].lower for other in others)], axis=0)
    share = task.judged / task.judged.sum()
    hits = np.where((task.y > 0)[:, None], decided, 1 - decided)
    right = share @ hits
    error = 1.96 * np.sqrt(share**2 @ (hits - right) ** 2)
    with np.errstate(invalid="ignore"):
        low, high = (bounds.estimate * np.exp(sign * 1.96 * bounds.error) for sign in (-1, 1))
    columns: dict[str, Any] = {
        "threshold": thresholds,
        "accuracy": right,
        "accuracy_low": right - error,
        "accuracy_high": right + error,
        "p_rule": bounds.estimate,
        "p_rule_low": np.nan_to_num(low),
        "p_rule_high": np.minimum(np.nan_to_num(high, nan=1.0), 1.0),
        "p_rule_bound": lower,
        "selected": share @ decided,
        "group": pairs[:, 0],
        "against": pairs[:, 1],
    }
    return pd.DataFrame(columns)


def _bounds(task: Task, decided: np.ndarray, confidence: float, seed: int) -> tuple[PRuleBounds, np.ndarray]:
    """Bounds for all thresholds at once, and the names of the pairs that bind; labels share the error between them."""
    assert task.sensitive is not None
    found, parts = [], parts_of(task.notion)
    for part in parts:
        cells = cells_of(task.sensitive, task.y > 0, part)
        judged = np.flatnonzero(cells.members.any(axis=0))
        bounds = bounds_of_means(
            decided[judged], task.sensitive.take(judged), 1 - (1 - confidence) / len(parts), seed, task.judged[judged]
        )
        found.append((bounds, np.array(cells.names, object)[bounds.pair]))
    each, estimates = np.arange(decided.shape[1]), np.stack([bounds.estimate for bounds, _ in found])
    lowest = np.argmin([bounds.lower for bounds, _ in found], axis=0)
    smallest = np.argmin(np.where(np.isnan(estimates), np.inf, estimates), axis=0)
    of = {name: np.stack([getattr(bounds, name) for bounds, _ in found]) for name in ("lower", "error", "pair")}
    critical = max(bounds.critical for bounds, _ in found)
    worst = PRuleBounds(
        estimates[smallest, each], of["lower"][lowest, each], of["error"][smallest, each], critical, of["pair"][lowest, each]
    )  # fmt: skip
    return worst, np.stack([pairs for _, pairs in found])[lowest, each]
