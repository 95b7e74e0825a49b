"""The fairness experiment: Adult as the paper splits it, its constraint, batch optima, and runs that are followed."""

import dataclasses
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd

from tightrope._minimize import minimize
from tightrope.lab.methods.primal_dual.goco import GOCO
from tightrope.lab.paper.figure import Size, finished
from tightrope.lab.slsqp import slsqp
from tightrope.learn.datasets import label_encoded, load_adult, split
from tightrope.learn.fairness.metrics import p_rule
from tightrope.learn.fairness.sensitive import Sensitive, read_sensitive
from tightrope.learn.problems import fair_classification
from tightrope.methods import CSOA, Method
from tightrope.problem import Problem
from tightrope.sampling import Rows
from tightrope.tree import replace

C, RADIUS = 0.05, 10.0
"""The threshold of the covariance, which is the paper's, and the radius of the ball, which it does not name; by hand."""
PAPER: dict[str, Method] = {"CSOA": CSOA(eta0=0.15, delta=0.01, upsilon0=80.0), "G-OCO": GOCO(v0=0.5, alpha0=2.5)}
"""The coefficients that the paper arrived at."""


@dataclasses.dataclass(frozen=True, eq=False)
class People:
    """Features X, labels y in {-1, +1} and a sensitive attribute s in {0, 1}, a row for each person."""

    X: np.ndarray
    y: np.ndarray
    s: np.ndarray

    def take(self, rows: Any) -> "People":
        """The people in these rows."""
        return People(self.X[rows], self.y[rows], self.s[rows])

    @cached_property
    def groups(self) -> Sensitive:
        """The sensitive attribute as `p_rule` takes it, read once."""
        return read_sensitive(self.s)

    @cached_property
    def slope(self) -> np.ndarray:
        """The vector v with covariance <v, x> of score and sensitive attribute."""
        return (self.s - self.s.mean()) @ self.X / len(self.s)


def together(*parts: People) -> People:
    """The people of several tables in one."""
    return People(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "s")))


class Optimum(NamedTuple):
    """A solution of the batch problem: the point, its objective, its covariance, and the constraint's multiplier."""

    x: np.ndarray
    objective: float
    covariance: float
    multiplier: float


class Experiment(NamedTuple):
    """People to learn from, to tune on and to test on, the threshold c, and the optimum of the first."""

    train: People
    validation: People
    test: People
    c: float
    optimum: Optimum


def both_sides(x, theta, params):
    """The covariance of one row, and minus it.

    Without the ceiling that `two_sided` knows: `minimize` rightly refuses upsilon0 = 80 for a two-sided constraint, because
    no point meets both sides when both are tightened by more than c. The paper ran it, so the reproduction has to.
    """
    features, _, _, s = theta
    q = s * jnp.dot(features, x)
    return jnp.concatenate([q, -q])


def paper_problem(people: People, c: float) -> tuple[Problem, Rows]:
    """The paper's problem with sampled constraints, and its rows, to be drawn independently as its theorems assume."""
    problem, data = fair_classification(people.X, people.y, people.s, c, radius=RADIUS, exact=False)
    return replace(problem, constraints=both_sides, names=("cov", "-cov")), Rows(data, replace=True)


@lru_cache(maxsize=2)
def adult(rows: int, tests: int | None) -> Experiment:
    """The paper's split of Adult, label-encoded; fewer rows of each part where asked for."""
    frame = load_adult()
    parts = split(len(frame))
    everybody = People(*label_encoded(frame, fit_on=parts.train)[:3])
    train = everybody.take(parts.train[:rows])
    return Experiment(
        train, everybody.take(parts.validation), everybody.take(parts.test[:tests]), C, batch_optimum(train, C)
    )


def adult_task(size: Size) -> Experiment:
    """The paper's split of Adult at this size; a table is read and solved once."""
    return adult(size.rows, size.tests)


def batch_optimum(people: People, c: float) -> Optimum:
    """The batch problem, |x| <= 10 and |covariance| <= c, by SLSQP; c may be infinite.

    Example:
        >>> import numpy as np
        >>> X = np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, 1.0], [-1.0, 1.0]])
        >>> people = People(X, np.array([1.0, -1.0, -1.0, 1.0]), np.array([1.0, 0.0, 1.0, 0.0]))
        >>> round(batch_optimum(people, 0.1).objective, 4)  # these labels cannot be learnt
        0.6931
    """
    beyond = 2 * RADIUS * float(np.linalg.norm(people.slope))  # no point of the ball has a covariance as large as this
    problem, data = fair_classification(people.X, people.y, people.s, min(c, beyond), radius=RADIUS)
    found = slsqp(problem, data, tol=1e-13, max_iterations=500)
    return Optimum(found.x, found.objective, float(people.slope @ found.x), float(found.dual.sum()))


def measure(x: np.ndarray, task: Experiment) -> dict[str, float]:
    """What the figures show of a point: objective, normalised error and violation in training, accuracy and p% in tests."""
    x = np.asarray(x, float)
    f = float(np.logaddexp(0, -task.train.y * (task.train.X @ x)).mean())
    excess = abs(float(task.train.slope @ x)) - task.c
    return {
        "objective": f,
        "error": (f - task.optimum.objective) / task.optimum.objective,
        "violation": max(excess, 0.0),
        "excess": excess,
        **fairness(x, task.test),
    }


def fairness(x: np.ndarray, people: People) -> dict[str, float]:
    """Accuracy, and the p%-rule as a share: NaN where nobody is selected."""
    selected = people.X @ np.asarray(x, float) >= 0
    return {"accuracy": float(np.mean(selected == (people.y > 0))), "p": p_rule(selected, people.groups)}


def follow(task: Experiment, method: Method, steps: int, seed: int, records: int) -> pd.DataFrame:
    """A run, measured at about `records` points along its way, at the running average and at the current iterate.

    Not in the first hundredth of it: the point is still near zero then, where accuracy and p% mean nothing.
    """
    problem, data = paper_problem(task.train, task.c)
    rows: list[dict[str, Any]] = []

    def measured(snapshot) -> None:
        if snapshot.step < steps / 100:
            return
        for point in ("average", "last"):
            rows.append(
                {"seed": seed, "step": snapshot.step, "point": point, **measure(getattr(snapshot, point), task)}
            )

    # half of a trace's rows are spread evenly, half in ratio
    run = minimize(
        problem, data, method=method, steps=steps, seed=seed, record=2 * records, callback=measured, progress=False
    )
    finished(run, f"{type(method).__name__} with seed {seed}")
    return pd.DataFrame(rows)


def coordinates(x) -> dict[str, Any]:
    """For `track`: the mean of each coordinate along a run is that of the average, which a sweep does not return."""
    return {f"x{i}": value for i, value in enumerate(x)}


def points(table: pd.DataFrame) -> np.ndarray:
    """The averages in a table that was tracked by `coordinates`, a row each."""
    width = table.filter(regex=r"^x\d+$").shape[1]
    return table[[f"x{i}" for i in range(width)]].to_numpy(float)  # in this order: a table has x10 before x2


def with_measures(table: pd.DataFrame, seen: Callable[[np.ndarray], dict[str, float]]) -> pd.DataFrame:
    """The table with what `seen` says of its averages, in place of their coordinates."""
    x = points(table)
    found = pd.DataFrame([seen(row) for row in x], index=table.index)
    kept = [name for name in table if name not in found and name not in {f"x{i}" for i in range(x.shape[1])}]
    return pd.concat([table[kept], found], axis=1)
