"""One training: standardise, build the problem, minimise, and give the coefficients back in the units of the features."""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from tightrope.fairness.sensitive import Sensitive
from tightrope.methods import CSOA, SVRGCSOA, Method
from tightrope.minimize import minimize
from tightrope.problem import Problem
from tightrope.problems.fair import FairProblem, centred, fair_classification, levels_of
from tightrope.result import Result, Status
from tightrope.sweep import sweep
from tightrope.tree import replace

_SMALLEST = 64  # rows; data is filled up to few different sizes, so that few programs are compiled
_COLUMNS = 8
_PATH_PASSES = 15.0  # a gap of 1e-6 or so: decisions do not see it


class Scaling(NamedTuple):
    """Features as the method sees them: centred, of deviation one, and a constant for the intercept."""

    mean: np.ndarray
    scale: np.ndarray
    intercept: bool

    @classmethod
    def fit(cls, X: np.ndarray, weight: np.ndarray, intercept: bool) -> "Scaling":
        """From data; a constant column is only centred. Without an intercept nothing can be centred."""
        total = weight.sum()
        mean = weight @ X / total
        deviation = np.sqrt(weight @ (X - mean) ** 2 / total)
        floor = 8 * np.finfo(float).eps * np.maximum(np.abs(mean), 1)  # a constant column, up to rounding
        scale = np.where(deviation > floor, deviation, 1.0)
        return cls(mean if intercept else np.zeros_like(mean), scale, intercept)

    def apply(self, X: np.ndarray) -> np.ndarray:
        """The standardised features, the constant last."""
        scaled = (X - self.mean) / self.scale
        return np.column_stack([scaled, np.ones(len(X))]) if self.intercept else scaled

    def back(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        """Coefficients and intercept for features as given; x may have columns filled up at its end."""
        d = len(self.mean)
        coef = x[:d] / self.scale
        return coef, float(x[d] - self.mean @ coef) if self.intercept else 0.0


class Task(NamedTuple):
    """What is to be trained: rows, weights, attributes (None: no constraint), and how the model is bounded."""

    X: np.ndarray
    y: np.ndarray  # -1 and +1
    sensitive: Sensitive | None
    weight: np.ndarray
    notion: str
    l2: float
    radius: float
    intercept: bool

    def take(self, rows: np.ndarray) -> "Task":
        """The same with some of the rows."""
        sensitive = None if self.sensitive is None else self.sensitive.take(rows)
        return self._replace(X=self.X[rows], y=self.y[rows], sensitive=sensitive, weight=self.weight[rows])


class Trained(NamedTuple):
    """A linear classifier in the units of the features, and the run it came from."""

    coef: np.ndarray
    intercept: float
    scaling: Scaling
    result: Result


def build(task: Task, threshold: Any, exact: bool = True, fill: bool = True) -> tuple[FairProblem, Scaling]:
    """The problem in standardised features, filled up to a common size unless told otherwise.

    Rows are repeated with their weight shared among the copies, which changes no mean; columns of zeros are added. Folds of
    a cross-validation, whose sizes differ by one, then share a compiled program. Continuous attributes are divided by their
    `units`, and their thresholds with them: constraints of very different sizes would hold the method up.
    """
    scaling = Scaling.fit(task.X, task.weight, task.intercept)
    features = scaling.apply(task.X)
    n, d = features.shape
    rows = np.arange(_round_up(n) if fill else n) % n
    copies = np.bincount(rows)[rows]
    wide = np.zeros((len(rows), -(-d // _COLUMNS) * _COLUMNS))
    wide[:, :d] = features[rows]
    penalised = np.arange(wide.shape[1]) < len(scaling.mean)
    sensitive = task.sensitive
    if sensitive is not None:
        unit = units(task)
        firsts = [sensitive.owners.index(i) for i in range(len(sensitive.attributes))]
        threshold = (levels_of(threshold, sensitive) / unit)[firsts]
        sensitive = dataclasses.replace(sensitive, columns=sensitive.columns / unit).take(rows)
    problem = fair_classification(
        wide,
        task.y[rows],
        sensitive,
        threshold,
        task.radius,
        notion=task.notion,
        sample_weight=task.weight[rows] / copies,
        l2=task.l2,
        penalised=penalised,
        exact=exact,
    )
    return problem, scaling


def units(task: Task) -> np.ndarray:
    """(K,): the deviation of each continuous sensitive attribute, and 1 for the columns of groups."""
    sensitive = task.sensitive
    if sensitive is None:
        return np.ones(0)
    share = task.weight / task.weight.sum()
    deviation = np.sqrt(share @ (sensitive.columns - share @ sensitive.columns) ** 2)
    continuous = np.array([sensitive.attributes[i].kind == "continuous" for i in sensitive.owners])
    return np.where(continuous & (deviation > 0), deviation, 1.0)


def train(
    task: Task, threshold: Any, *, method: str | Method, passes: float | None, tol: float, seed: int, **options: Any
) -> Trained:
    """The classifier at one threshold: feasible on its rows for "auto", the method's own output for any other."""
    automatic = method == "auto"
    (problem, data), scaling = build(task, threshold, exact=automatic)
    with jax.enable_x64(True):
        if automatic:
            result = _solve(problem, data, _budget(len(data[1])) if passes is None else passes, tol, seed, **options)
        else:
            options = {"passes": 10.0 if passes is None else passes, "batch_size": 1} | options
            method = _csoa(problem, data, options["passes"]) if method == "csoa" else method
            result = minimize(problem, data, method=method, seed=seed, **options)
        if result.status is Status.INTERRUPTED:  # half a run is no classifier
            raise KeyboardInterrupt
        result = _in_units(_in_numpy(result), np.tile(units(task), 2))
    filled, n = len(data[1]), len(task.y)
    result = dataclasses.replace(result, measured_on=result.measured_on.replace(f"{filled:,} rows", f"{n:,} rows"))
    x = np.asarray(result.x, float)
    coef, intercept = scaling.back(x)
    if automatic and task.sensitive is not None:
        coef, intercept = _feasible_as_stored(coef, intercept, task, levels_of(threshold, task.sensitive))
    return Trained(coef, intercept, scaling, result)


def _solve(problem: Problem, data: Any, passes: float, tol: float, seed: int, **options: Any) -> Result:
    """To a duality gap of tol times the objective, which is tiny where the classes can be told apart."""
    start = np.zeros(data[0].shape[1])  # its score is constant: no covariance at all
    options = {"passes": passes, "output": "feasible", "feasible_point": start, "seed": seed} | options
    objective = float(np.log(2))  # at the start
    result = minimize(problem, data, tol=tol * objective, **options)
    while result.status is Status.TOLERANCE and objective > 1e-12 and (result.objective or 0.0) < objective / 10:
        objective = max(result.objective or 0.0, 1e-12)
        result = minimize(problem, data, tol=tol * objective, warm_start=result, **options)
    return result


def _budget(n: int) -> float:
    """At most so many passes: few rows are quickly passed, and may be all but separable."""
    return 300.0 + 100_000.0 / n


def train_path(task: Task, thresholds: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (L, d) and intercepts (L,) along a path of thresholds, all of them in one compiled sweep."""
    (problem, data), scaling = build(task, 1.0)
    levels = thresholds[:, None] * np.ones(np.size(problem.levels))
    with jax.enable_x64(True):
        table = sweep(
            problem, data, SVRGCSOA(), passes=_PATH_PASSES, levels=levels, seeds=(seed,), points=True,
            progress=False,
        )  # fmt: skip
    back = [scaling.back(np.asarray(x, float)) for x in table["x"]]
    return np.stack([coef for coef, _ in back]), np.array([intercept for _, intercept in back])


def covariances(coef: np.ndarray, task: Task) -> np.ndarray:
    """Of score and sensitive columns, (K,), recomputed row by row from the features as given."""
    assert task.sensitive is not None
    s = centred(task.sensitive, task.weight, task.y > 0, task.notion)
    return s.T @ (task.X @ coef) / len(s)


def _feasible_as_stored(coef: np.ndarray, intercept: float, task: Task, levels: np.ndarray):
    """Shrink by a few units of rounding where the coefficients, scaled back, would exceed a threshold by that little."""
    score = np.abs(task.X) @ np.abs(coef) + abs(intercept)
    unit = np.abs(task.sensitive.columns).max(axis=0) if task.sensitive is not None else 0.0
    margin = 16 * np.finfo(float).eps * (unit * float(score.mean()) + levels)
    size = np.abs(covariances(coef, task))
    factor = float(np.min(np.where(size > levels - margin, (levels - margin) / np.maximum(size, levels), 1.0)))
    return coef * factor, intercept * factor


def _csoa(problem: Problem, data: Any, passes: float) -> CSOA:
    """The paper's method with coefficients that suit standardised features.

    eta0 = 2.5 and upsilon0 = 1 did best on Adult at ten passes. The step stays below 1/L of the loss, L = E|a|^2/4,
    and the tightening below half the room that the two-sided constraint leaves.
    """
    root = np.sqrt(max(1.0, passes * len(data[1])))
    size = float(np.mean(np.sum(data[0] ** 2, axis=1)))
    room = float(np.min(problem.levels, initial=np.inf)) / 2 * root
    return CSOA(eta0=min(2.5, 4 * root / size), delta=0.01, upsilon0=min(1.0, room))


def _round_up(n: int) -> int:
    """At least `_SMALLEST`, with four leading bits at most: an eighth too many at worst."""
    unit = max(_SMALLEST, 1 << max(0, (n - 1).bit_length() - 4))
    return -(-n // unit) * unit


def _in_units(result: Result, unit: np.ndarray) -> Result:
    """The report in the units of the attributes; the trace and the state stay as the method saw them."""
    return dataclasses.replace(
        result,
        constraints=result.constraints * unit,
        dual=np.asarray(result.dual) / unit,
        dual_last=np.asarray(result.dual_last) / unit,
    )


def _in_numpy(result: Result) -> Result:
    """The result with NumPy arrays, which a pickle brings back in float64 wherever it is opened."""
    plain = {name: jax.tree.map(np.asarray, getattr(result, name)) for name in ("x", "average", "last", "state")}
    pull = None if result.pull is None else result.pull._replace(
        x=np.asarray(result.pull.x), towards=np.asarray(result.pull.towards)
    )  # fmt: skip
    method = jax.tree.map(float, result.method)
    return dataclasses.replace(result, **plain, pull=pull, method=replace(method))
