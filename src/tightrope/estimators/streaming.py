"""Learning from a stream of batches: CSOA on pairs of rows."""

from typing import Any, NamedTuple

import jax
import numpy as np

from tightrope.estimators.training import Scaling, Task
from tightrope.methods import CSOA, Method
from tightrope.online import Online
from tightrope.problems.fair_pairs import paired_classification

ETA0, UPSILON0 = 2.5, 1.0


class FairStream(NamedTuple):
    """A run that is fed with pairs, the scaling of its features, and at most one row that waits for its partner."""

    run: Online
    scaling: Scaling
    waiting: list[tuple[np.ndarray, ...]]

    @classmethod
    def start(cls, task: Task, covariance: Any, scaling: Any, method: str | Method) -> "FairStream":
        """Before the first update; features are scaled by what is given, or by the first batch."""
        if scaling is None:
            chosen = Scaling.fit(task.X, task.weight, task.intercept)
        else:
            mean, scale = (np.asarray(v, float) for v in scaling)
            d = task.X.shape[1]
            if mean.shape != (d,) or scale.shape != (d,) or not np.all(scale > 0):
                raise ValueError(
                    f"scaling has shapes {mean.shape} and {scale.shape}; expected {d} means and {d} positive deviations."
                )
            chosen = Scaling(mean if task.intercept else np.zeros(d), scale, task.intercept)
        if isinstance(method, str) and method not in ("auto", "csoa"):
            raise ValueError(
                f"partial_fit learns with CSOA and method is {method!r}; expected auto, csoa or a method object."
            )
        d = len(chosen.mean) + chosen.intercept
        problem = paired_classification(
            d, task.sensitive, covariance, task.radius, notion=task.notion, l2=task.l2, intercept=task.intercept
        )
        if isinstance(method, str):
            eta0 = min(ETA0, 4 / d)  # the first step is eta0 itself; below 1/L, L = E|a|^2/4
            room = float(np.min(problem.params.get("c", np.inf)))
            method = CSOA(eta0=eta0, delta=0.01, upsilon0=min(UPSILON0, room / 2), anytime=True)
        with jax.enable_x64(True):
            k = 0 if task.sensitive is None else task.sensitive.columns.shape[1]
            example = (np.zeros((1, 2, d)), np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2, k)))
            return cls(Online(problem, method, example=example), chosen, [])

    def update(self, task: Task) -> None:
        """A step for every two rows."""
        k = 0 if task.sensitive is None else task.sensitive.columns.shape[1]
        columns = np.zeros((len(task.y), k)) if task.sensitive is None else task.sensitive.columns
        rows = (self.scaling.apply(task.X), task.y, task.weight, columns)
        if self.waiting:
            rows = tuple(np.concatenate([old, new]) for old, new in zip(self.waiting.pop(), rows, strict=True))
        pairs = len(rows[1]) // 2
        if len(rows[1]) % 2:
            self.waiting.append(tuple(a[-1:].copy() for a in rows))
        with jax.enable_x64(True):
            self.run.update(tuple(a[: 2 * pairs].reshape(pairs, 2, *a.shape[1:]) for a in rows))

    def learnt(self) -> tuple[np.ndarray, float, np.ndarray]:
        """Coefficients and intercept of the average, in the units of the features, and the mean multipliers."""
        with jax.enable_x64(True):
            coef, intercept = self.scaling.back(np.asarray(self.run.average, float))
            return coef, intercept, np.asarray(self.run.dual, float)
