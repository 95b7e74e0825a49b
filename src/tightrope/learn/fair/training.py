"""One training: standardise, build the problem, minimise, and give the coefficients back in the units of the features."""

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tightrope._minimize import minimize
from tightrope.learn.fair.task import Task
from tightrope.learn.fairness.notions import NOTIONS
from tightrope.learn.loss import LOSS
from tightrope.learn.problems.entries import few_sizes
from tightrope.learn.problems.fair import centred, fair_classification, levels_of
from tightrope.learn.runs import kept
from tightrope.methods import CSOA, Method
from tightrope.problem import Problem
from tightrope.result import Result

if TYPE_CHECKING:
    from tightrope.learn.fair.rates import Limits, Point

ETA0 = 2.5  # CSOA's step for standardised features; measured on Adult, where it did best at ten passes
_SMALLEST = 64  # rows; data is filled up to few different sizes, so that few programs are compiled; a guess
_COLUMNS = 8  # the number of columns is filled up to a multiple of this one, for the same reason; a guess
_VISIBLE = 0.005  # the smallest root mean square error of predicted probabilities that a user is warned of; by hand
_LOST = 0.1  # a share of the error that probabilities have by sampling: no warning is given below it; by hand


class Scaling(NamedTuple):
    """Features as the method sees them: centred, of deviation one, and a constant for the intercept."""

    mean: np.ndarray
    scale: np.ndarray
    intercept: bool

    @classmethod
    def fit(cls, X: np.ndarray, weight: np.ndarray, intercept: bool) -> "Scaling":
        """Means and deviations of data; a constant column is only centred. Without an intercept nothing can be centred."""
        total = weight.sum()
        with np.errstate(over="ignore", invalid="ignore"):
            mean = weight @ X / total
            deviation = np.sqrt(weight @ (X - mean) ** 2 / total)
        if not np.all(np.isfinite(deviation)):
            largest = float(np.max(np.abs(X)))
            raise ValueError(f"X has values up to {largest:.1e}, whose squares overflow; expected smaller units.")
        floor = 8 * np.finfo(float).eps * np.maximum(np.abs(mean), 1)  # a constant column, up to rounding
        scale = np.where(deviation > floor, deviation, 1.0)
        return cls(mean if intercept else np.zeros_like(mean), scale, intercept)

    @classmethod
    def given(cls, scaling: Any, d: int, intercept: bool) -> "Scaling":
        """Means and deviations of d features, as a user gives them."""
        mean, scale = (np.asarray(v, float) for v in scaling)
        if mean.shape != (d,) or scale.shape != (d,) or not np.all(scale > 0):
            raise ValueError(
                f"scaling has shapes {mean.shape} and {scale.shape}; expected {d} means and {d} positive deviations."
            )
        return cls(mean if intercept else np.zeros(d), scale, intercept)

    def apply(self, X: np.ndarray) -> np.ndarray:
        """The standardised features, and the constant as the last column."""
        scaled = (X - self.mean) / self.scale
        return np.column_stack([scaled, np.ones(len(X))]) if self.intercept else scaled

    def back(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        """Coefficients and intercept for features as given; x may have columns filled up at its end."""
        d = len(self.mean)
        coef = x[:d] / self.scale
        return coef, float(x[d] - self.mean @ coef) if self.intercept else 0.0


class Built(NamedTuple):
    """The problem of a task in standardised features. It is built once for its rows; `at` gives it other thresholds."""

    task: Task
    scaling: Scaling
    unit: np.ndarray  # (K,), what columns of `centred` were divided by: constraints of unlike sizes slow methods down
    levels: np.ndarray  # (K,), the thresholds, in the units of the attributes
    problem: Problem
    data: tuple[np.ndarray, ...]  # rows for `problem`, filled up to a common size

    def at(self, threshold: Any) -> "Built":
        """The same with this threshold, or one for each attribute; a task without attributes has none."""
        if self.task.sensitive is None:
            return self
        levels = levels_of(threshold, self.task.sensitive, self.task.notion)
        problem = dataclasses.replace(self.problem, levels=np.tile(levels / self.unit, 2))
        return self._replace(levels=levels, problem=problem)

    def rows_once(self) -> tuple[np.ndarray, ...]:
        """The data without the copies that it was filled up with, each row with its full weight."""
        n = len(self.task.y)
        features, y, weight, s = (part[:n] for part in self.data)
        copies = np.bincount(repeated(n))
        return features, y, weight * copies, s * copies[:, None]


def build(task: Task) -> Built:
    """The problem with thresholds of one unit, its data filled up to a common size.

    Rows are repeated with their weight shared among the copies, which changes no mean; columns of zeros are added. Folds of
    a cross-validation, whose sizes differ by one, then share a compiled program.
    """
    scaling = Scaling.fit(task.X, task.weight, task.intercept)
    features = scaling.apply(task.X)
    rows = repeated(len(features))
    copies = np.bincount(rows)[rows]
    wide = widened(features)[rows]
    unit, sensitive = units(task), task.sensitive
    if sensitive is not None:
        sensitive = dataclasses.replace(sensitive, columns=sensitive.columns / unit).take(rows)
    problem, data = fair_classification(
        wide,
        task.y[rows],
        sensitive,
        1.0,
        task.radius,
        notion=task.notion,
        sample_weight=task.weight[rows] / copies,
        l2=task.l2,
        penalised=np.arange(wide.shape[1]) < len(scaling.mean),
    )
    unit = np.tile(unit, len(NOTIONS[task.notion]))
    return Built(task, scaling, unit, unit, problem, data)


def units(task: Task) -> np.ndarray:
    """(K,): the deviation of each continuous sensitive attribute, and 1 for the columns of groups."""
    if task.sensitive is None:
        return np.ones(0)
    share = task.weight / task.weight.sum()
    deviation = np.sqrt(share @ (task.columns - share @ task.columns) ** 2)
    continuous = np.array([task.sensitive.attributes[i].kind == "continuous" for i in task.sensitive.owners])
    return np.where(continuous & (deviation > 0), deviation, 1.0)


class LinearScore(NamedTuple):
    """A linear score for features as given, and where it comes from: a run, or a point of a path by rates."""

    coef: np.ndarray
    intercept: float
    result: Any = None  # a `Result`
    point: "Point | None" = None
    limits: "Limits | None" = None


def train(
    built: Built, *, method: str | Method, passes: float | None, tol: float, seed: int, **options: Any
) -> LinearScore:
    """The classifier at the thresholds of `built`: feasible on its rows for "auto", the method's own output otherwise."""
    task, problem, data = built.task, built.problem, built.data
    automatic = method == "auto"
    with jax.enable_x64(True):
        if automatic:
            result = solve(problem, data, budget(len(data[1])) if passes is None else passes, tol, seed, **options)
        else:
            problem = dataclasses.replace(problem, exact_constraints=None)  # samples are all that these methods see
            options = {"passes": 10.0 if passes is None else passes, "batch_size": 1} | options
            if method == "csoa":
                method = csoa(problem, len(data[1]), np.mean(np.sum(data[0] ** 2, axis=1)), options["passes"])
            result = minimize(problem, data, method=method, seed=seed, **options)
        result = in_units(kept(result, f"{len(task.y):,} rows"), np.tile(built.unit, 2))
    coef, intercept = built.scaling.back(np.asarray(result.x, float))
    if automatic and task.sensitive is not None:
        coef, intercept = _feasible_as_stored(coef, intercept, task, built.levels)
    return LinearScore(coef, intercept, result)


def solve(problem: Problem, data: Any, passes: float, tol: float, seed: int, **options: Any) -> Result:
    """Minimise to a duality gap of tol times the objective, which is tiny where the classes can be told apart."""
    start = np.zeros(problem.params["V"].shape[1])  # its score is constant: no covariance at all
    options = {"passes": passes, "output": "feasible", "feasible_point": start, "seed": seed} | options
    objective = LOSS.at_zero
    result = minimize(problem, data, tol=tol * objective, **options)
    while result.status.proven and objective > 1e-12 and (result.objective or 0.0) < objective / 10:
        objective = max(result.objective or 0.0, 1e-12)
        result = minimize(problem, data, tol=tol * objective, warm_start=result, **options)
    return result


def budget(n: int) -> float:
    """The most passes over n rows: few rows are quickly passed, and may be all but separable."""
    return 300.0 + 100_000.0 / n


def covariances(coef: np.ndarray, task: Task) -> np.ndarray:
    """The covariances of score and sensitive columns, label by label, recomputed row by row from the features as given."""
    assert task.sensitive is not None
    s = centred(task.sensitive, task.weight, task.y > 0, task.notion)
    return s.T @ (task.X @ coef) / len(s)


def _feasible_as_stored(coef: np.ndarray, intercept: float, task: Task, levels: np.ndarray):
    """The coefficients, shrunk by a few units of rounding where they would exceed a threshold by that little."""
    score = np.abs(task.X) @ np.abs(coef) + abs(intercept)
    largest = np.tile(np.abs(task.columns).max(axis=0), len(NOTIONS[task.notion]))
    margin = 16 * np.finfo(float).eps * (largest * float(score.mean()) + levels)
    size = np.abs(covariances(coef, task))
    factor = float(np.min(np.where(size > levels - margin, (levels - margin) / np.maximum(size, levels), 1.0)))
    return coef * factor, intercept * factor


def csoa(problem: Problem, rows: int, size: float, passes: float) -> CSOA:
    """The paper's method with coefficients that suit standardised features of mean square norm `size`.

    upsilon0 = 1 did best on Adult at ten passes. The step stays below 1/L of the loss, L = E|a|^2 times its bend,
    and the tightening below half the room that the two-sided constraint leaves.
    """
    root = np.sqrt(max(1.0, passes * rows))
    room = float(np.min(problem.levels, initial=np.inf)) / 2 * root
    return CSOA(eta0=min(ETA0, root / (LOSS.bend * size)), delta=0.01, upsilon0=min(1.0, room))


def repeated(n: int) -> np.ndarray:
    """The numbers 0 to n - 1, and from 0 again until there are as many as the next common size."""
    return np.arange(few_sizes(n, _SMALLEST)) % n


def widened(features: np.ndarray) -> np.ndarray:
    """Columns of zeros after the features, up to the next common number of columns."""
    return np.pad(features, ((0, 0), (0, -features.shape[1] % _COLUMNS)))


def in_units(result: Result, unit: np.ndarray) -> Result:
    """The report in the units of the attributes; the trace and the state stay as the method saw them."""
    return dataclasses.replace(
        result,
        constraints=result.constraints * unit,
        dual=np.asarray(result.dual) / unit,
        dual_last=np.asarray(result.dual_last) / unit,
    )


# ---- what a user should know -----------------------------------------------------------------------------------------


def warn_of_few(few: list[tuple[int, int]], names: Any) -> None:
    """Warn of features, called `names`, by which a handful of rows can satisfy the constraint for all others."""
    few = [(j, rows) for j, rows in few if j < len(names)]
    if few:
        said = ", ".join(f"{names[j]} ({rows} rows)" for j, rows in few[:8]) + (", ..." if len(few) > 8 else "")
        warnings.warn(
            f"A handful of rows can carry the covariance by themselves: {said}. Their coefficients can satisfy the "
            "constraint without making anything fair. Merge rare categories, drop these columns, or use a smaller "
            "radius.",
            stacklevel=3,
        )


def warn_of_gap(result: Result, features: int, rows: int) -> None:
    """Warn where the passes ran out before the tolerance was met, and the gap is one that would show.

    Estimating d coefficients from n rows costs d / (2n) of loss, and moves probabilities by root(d / n) / 2 at most.
    """
    gap = result.trace["gap"].iloc[-1] if "gap" in result.trace else 0.0
    off, sampling = LOSS.off(gap), np.sqrt(features / rows) / 2
    if off > max(_VISIBLE, _LOST * sampling):
        warnings.warn(
            f"The passes ran out at a duality gap of {gap:.1e}: predicted probabilities may be off by {off:.2g} (root mean "
            "square). The classifier satisfies its constraint and may be less accurate than it could be. Give more passes, "
            "or drop features that repeat one another.",
            ConvergenceWarning,
            stacklevel=3,
        )
