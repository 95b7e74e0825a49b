"""A fair classifier that learns from a stream of batches, with CSOA on small groups of rows."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightrope.aside import twin
from tightrope.learn.fair.task import Task
from tightrope.learn.fair.training import ETA0, Scaling
from tightrope.learn.problems.fair_pairs import paired_classification
from tightrope.methods import CSOA, Method
from tightrope.online import Online
from tightrope.problem import Problem
from tightrope.tree import Array, Tree, pytree

GROUP = 8
"""Rows a step; measured on Adult: of pairs the covariance is five times as noisy, of more rows steps are too few."""

UPSILON0 = 0.1  # CSOA's tightening, in the units of the constraint; by hand
FIRST_STEP = 1.4  # over d, the length of the first step; by hand: 1/L is 4/d, and rows with outliers need less


@pytree
class LateCSOA(CSOA):
    """CSOA's anytime form with its steps counted from a later one, so that the first are not too long.

    eta0/sqrt(t) from t = 1 is either too long for the first rows, which then weigh most in the mean, or too short for the
    later ones.

    Args:
        first: the number of the first step.
    """

    first: Any = 1.0

    def init(self, problem: Problem, x: Tree, lam: Array, horizon: Array) -> Any:
        """x_1 and lambda_1."""
        return super().init(problem, x, lam, horizon)._replace(t=jnp.asarray(self.first).astype(jnp.int32))


class FairStream(NamedTuple):
    """A run that is fed with groups, the scaling of its features, and the rows that wait until their group is full."""

    run: Online
    scaling: Scaling
    waiting: tuple[np.ndarray, ...] = ()

    @classmethod
    def start(cls, task: Task, covariance: Any, scaling: Any, method: str | Method) -> "FairStream":
        """A stream before its first update; features are standardised by `scaling`, or by the first batch."""
        if isinstance(method, str) and method not in ("auto", "csoa"):
            raise ValueError(
                f"partial_fit learns with CSOA and method is {method!r}; expected auto, csoa or a method object."
            )
        if scaling is None:
            read = Scaling.fit(task.X, task.weight, task.intercept)
        else:
            read = Scaling.given(scaling, task.X.shape[1], task.intercept)
        d = len(read.mean) + read.intercept
        problem = paired_classification(
            d, task.sensitive, covariance, task.radius, notion=task.notion, l2=task.l2, intercept=task.intercept
        )
        if isinstance(method, str):
            method = _late_csoa(problem, d)
        with jax.enable_x64(True):
            shapes = ((d,), (), (), task.columns.shape[1:])
            example = tuple(np.zeros((1, GROUP, *shape)) for shape in shapes)
            return cls(Online(problem, method, example=example), read)

    def after(self, task: Task) -> "FairStream":
        """The stream after a step for every `GROUP` rows; those left over wait for the next batch."""
        rows = (self.scaling.apply(task.X), task.y, task.weight, task.columns)
        if self.waiting:
            rows = tuple(np.concatenate([old, new]) for old, new in zip(self.waiting, rows, strict=True))
        groups, run = len(rows[1]) // GROUP, twin(self.run)
        with jax.enable_x64(True):
            run.update(tuple(a[: GROUP * groups].reshape(groups, GROUP, *a.shape[1:]) for a in rows))
        return FairStream(run, self.scaling, tuple(a[GROUP * groups :].copy() for a in rows))

    def learnt(self) -> tuple[np.ndarray, float, np.ndarray]:
        """Coefficients and intercept of the average, in the units of the features, and the mean multipliers."""
        with jax.enable_x64(True):
            coef, intercept = self.scaling.back(np.asarray(self.run.average, float))
            return coef, intercept, np.asarray(self.run.dual, float)


def _late_csoa(problem: Problem, d: int) -> LateCSOA:
    """The method for d standardised features; its tightening leaves half of the room that the constraint has."""
    first = max(1.0, np.ceil((ETA0 * d / FIRST_STEP) ** 2))
    room = float(np.min(problem.params.get("c", np.inf))) * np.sqrt(first)
    return LateCSOA(ETA0, 0.01, min(UPSILON0, room / 2), anytime=True, first=first)
