"""Accuracy against fairness along a path of thresholds, from predictions on rows that a classifier has not seen."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tightrope.confidence import TWO_SIDED
from tightrope.learn.fair.asked import Asked
from tightrope.learn.fair.covariance_path import covariance_path
from tightrope.learn.fair.refusal import refusal
from tightrope.learn.fair.split import Split, accuracy
from tightrope.learn.fair.task import Task
from tightrope.learn.fair.training import Built, build, covariances, train
from tightrope.learn.fairness.metrics import PRuleBounds, bounds_of_means
from tightrope.learn.fairness.notions import cells_of, parts_of

SEARCHES = ("cross-validation", "batch")
LEVELS = 24  # thresholds on the path; by hand: a step is then a fifth of a threshold
SMALLEST = 0.003  # the smallest threshold on the path, as a share of the largest; by hand
_NONE = 1e-8  # a covariance of logarithms of odds and a group that is none; derived: the root of what float64 resolves
BATCH_ROWS = 10_000  # rows that the paper's procedure looks at; the paper's


def choose(
    built: Built, p_rule: float, *, search: str, folds: int, confidence: float, seed: int
) -> tuple[float, pd.DataFrame]:
    """The largest threshold that keeps `p_rule`, found by one of `SEARCHES`, and the path it was chosen from.

    "cross-validation" wants the bound on the p%-rule out of fold to keep it. "batch" is the paper's procedure: classifiers
    on 10,000 random rows, judged by their p%-rule on these same rows, and no confidence.
    """
    task, column = built.task, "p_rule_bound"
    if search == "cross-validation":
        table = compute_frontier(built, folds=folds, confidence=confidence, seed=seed)
    else:
        column, rows = "p_rule", np.random.default_rng(seed).permutation(len(task.y))[:BATCH_ROWS]
        part = built if len(rows) == len(task.y) else build(task.take(np.sort(rows)))
        task, thresholds = part.task, path_of_thresholds(part, seed)
        table = judge_path(task, thresholds, [_decisions(task, thresholds, task.X, seed)], confidence, seed)
    enough = table[table[column] >= p_rule]
    if len(enough):
        return float(enough["threshold"].max()), table
    best = table.iloc[int(np.argmax(table[column].fillna(-1.0)))]
    raise refusal(
        Asked("ratio", 1 - p_rule), best, f"at best, with covariance={best['threshold']:.3g}", task, table,
        confidence=confidence if search == "cross-validation" else None,
        further="bound rates, which reaches further than a covariance (constraint='auto', --constraint auto, with search "
        "and method as they are by default), ",
    )  # fmt: skip


def compute_frontier(built: Built, *, folds: int, confidence: float, seed: int) -> pd.DataFrame:
    """A row per threshold, the largest first: accuracy and p%-rule of classifiers trained on the other folds.

    The largest threshold is the covariance of the classifier without constraint, from where on it binds. The column
    p_rule_bound holds with probability `confidence` for all thresholds at once, so that one may choose by it; p_rule_low
    and p_rule_high, accuracy_low and accuracy_high are two-sided intervals for one threshold at a time. The columns group
    and against name the pair of groups whose bound is the lowest.
    """
    task, thresholds, split = built.task, path_of_thresholds(built, seed), Split(built.task, "cross-fit", folds, seed)
    decided = np.stack([_decisions(task.take(rows), thresholds, task.X, seed) for rows in split.trained], axis=1)
    return judge_path(task, thresholds, split.views(decided), confidence, seed)


def path_of_thresholds(built: Built, seed: int) -> np.ndarray:
    """Thresholds from where the constraint begins to bind down, in equal ratios."""
    free = train(built.at(1e6), method="auto", passes=None, tol=1e-6, seed=seed, record=0)
    largest = float(np.max(np.abs(covariances(free.coef, built.task))))
    return max(largest, _NONE) * np.geomspace(1.0, SMALLEST, LEVELS)


def _decisions(task: Task, thresholds: np.ndarray, X: np.ndarray, seed: int) -> np.ndarray:
    """Which rows of X a classifier of each threshold decides positive."""
    coef, intercept = covariance_path(task, thresholds, seed)
    return X @ coef.T + intercept > 0


def judge_path(
    task: Task, thresholds: np.ndarray, views: Sequence[np.ndarray], confidence: float, seed: int
) -> pd.DataFrame:
    """The rows of a frontier: what classifiers, a column of decisions each, are worth on rows they were not trained on.

    `views` are of the same decisions, what is best known of them first: the bound is the lowest that any of them has.
    """
    (bounds, pairs), *others = (_bounds(task, view, confidence, seed) for view in views)
    lower = np.min([bounds.lower, *(other.lower for other, _ in others)], axis=0)
    share, decided = task.judged / task.judged.sum(), views[0]
    with np.errstate(invalid="ignore"):
        low, high = (bounds.estimate * np.exp(sign * TWO_SIDED * bounds.error) for sign in (-1, 1))
    columns: dict[str, Any] = {
        "threshold": thresholds,
        **accuracy(share, task.y > 0, decided),
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
